package selfupdate

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// failing has changes of the disk fail, the first n of those that hit says.
func (w *world) failing(n int, hit func(what string) bool) *int {
	step, failed := w.store.step, 0
	w.store.step = func(what string) error {
		if failed < n && hit(what) {
			failed++
			return syscall.ENOSPC
		}
		return step(what)
	}
	return &failed
}

// between runs the watcher to its end and calls look before each of its pauses.
func (w *world) between(sd Systemd, look func()) *taskcatalog.AgentDelivery {
	w.Helper()
	watcher := w.watcher()
	if sd != nil {
		watcher.Systemd = sd
	}
	sleep := watcher.Sleep
	watcher.Sleep = func(ctx context.Context, d time.Duration) error {
		look()
		return sleep(ctx, d)
	}
	if err := watcher.Run(w.Context()); err != nil {
		w.Fatal(err)
	}
	st, err := w.store.Load()
	if err != nil {
		w.Fatal(err)
	}
	return st.Last()
}

func (w *world) arm(behaviour string) {
	w.Helper()
	if err := w.update(w.publish("1.1.0", behaviour)); err != nil {
		w.Fatal(err)
	}
}

func TestAStateThatCannotBePutBackYetIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.arm("damages")
	failed := w.failing(3, func(what string) bool { return what == "sync ledger.db.new" })
	seen := 0
	d := w.between(nil, func() {
		if *failed == seen {
			return
		}
		seen = *failed
		st, err := w.store.Load()
		if err != nil || st.Trial == nil || st.Trial.Step != Reverting {
			t.Errorf("after a failure: %+v %v", st, err)
		}
		if _, err := os.Stat(filepath.Join(w.state, "update", beforeDir, "ledger.db")); err != nil {
			t.Errorf("after a failure: %v", err)
		}
		if _, err := os.Stat(filepath.Join(w.state, "ledger.db.new")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("half a copy is left: %v", err)
		}
		if w.agent == nil || w.agent.version != "1.0.0" {
			t.Errorf("after a failure %+v runs", w.agent)
		}
	})
	if seen != 3 || d == nil || d.Outcome != taskcatalog.UpdateRolledBack || !strings.Contains(d.Message, "put back") {
		t.Errorf("%d failures, %+v", seen, d)
	}
	if raw, err := os.ReadFile(filepath.Join(w.state, "ledger.db")); err != nil || string(raw) != "a sound ledger" || w.agent.behaviour != "fine" {
		t.Errorf("%q %v, %+v", raw, err, w.agent)
	}
}
