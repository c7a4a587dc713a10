package ledger

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/hostler/hostler/agent/scrub"
)

// crashing is a systemd whose machine goes down at a given call.
type crashing struct {
	ledger *Ledger
	at     string // "start UNIT"
	asked  []string
}

func (c *crashing) ask(what string) error {
	c.asked = append(c.asked, what)
	if what == c.at {
		_ = c.ledger.Close() // unwritten changes are lost
		return errors.New("the machine went down")
	}
	return nil
}

func (c *crashing) Active(context.Context, string) (bool, error) { return true, nil }
func (c *crashing) Stop(_ context.Context, unit string) error    { return c.ask("stop " + unit) }
func (c *crashing) Start(_ context.Context, unit string) error   { return c.ask("start " + unit) }

func stopped(t *testing.T, l *Ledger) []string {
	t.Helper()
	units, err := l.StoppedUnits()
	do(t, err)
	return units
}

func TestWhatIsStoppedIsKnownOverARestartInItsOrder(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	if got := stopped(t, l); len(got) != 0 {
		t.Errorf("a new ledger has %q", got)
	}
	do(t, l.PutStopped("b.service"), l.PutStopped("a.service"), l.PutStopped("b.service"), l.PutStopped("c.service"))
	do(t, l.Close())
	l = open(t, dir)
	if got := stopped(t, l); !slices.Equal(got, []string{"b.service", "a.service", "c.service"}) {
		t.Errorf("after a restart: %q", got)
	}
	do(t, l.DeleteStopped("a.service"), l.DeleteStopped("never.service"), l.Close())
	l = open(t, dir)
	if got := stopped(t, l); !slices.Equal(got, []string{"b.service", "c.service"}) {
		t.Errorf("after one runs again: %q", got)
	}
}

// A unit leaves the ledger only once it runs. After a crash at any point the next start of the
// machine starts it, possibly once more than needed.
func TestACrashWhilePuttingBackLeavesNothingStopped(t *testing.T) {
	for _, at := range []string{"start a.service", "start b.service", "start c.service", ""} {
		dir := t.TempDir()
		l := open(t, dir)
		do(t, l.PutStopped("a.service"), l.PutStopped("b.service"), l.PutStopped("c.service"))
		first := &crashing{ledger: l, at: at}
		for _, u := range scrub.PutBack(t.Context(), l, first, nil) {
			if u.PutBack && at == "start a.service" {
				t.Errorf("%s is said to be put back though the machine was down", u.Unit)
			}
		}
		_ = l.Close()
		l = open(t, dir)
		left := stopped(t, l)
		second := &crashing{ledger: l}
		for _, u := range scrub.PutBack(t.Context(), l, second, nil) {
			if !u.PutBack || !slices.Contains(left, u.Unit) {
				t.Errorf("crash at %q: %+v at the next start, with %q left", at, u, left)
			}
		}
		for _, unit := range []string{"a.service", "b.service", "c.service"} {
			start := "start " + unit
			// A start interrupted by the crash does not count.
			if ran := slices.Contains(first.asked, start) && start != at && !slices.Contains(left, unit); !ran && !slices.Contains(second.asked, start) {
				t.Errorf("crash at %q: %s stays stopped", at, unit)
			}
		}
		if got := stopped(t, l); len(got) != 0 {
			t.Errorf("crash at %q: %q stay in the ledger", at, got)
		}
		do(t, l.Close())
	}
}

// An unnamed unit that held a GPU stays in the ledger, and stopped, until a scrub begins.
func TestWhatIsStoppedForGoodIsKnownOverARestartAndNotStarted(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	do(t, l.PutStopped("named.service"), l.PutUnnamed("b.service"), l.PutUnnamed("a.service"), l.PutUnnamed("b.service"), l.Close())
	l = open(t, dir)
	systemd := &crashing{ledger: l}
	if got := scrub.PutBack(t.Context(), l, systemd, nil); len(got) != 1 || !slices.Equal(systemd.asked, []string{"start named.service"}) {
		t.Errorf("%+v, asked %q", got, systemd.asked)
	}
	units, err := l.UnnamedUnits()
	do(t, err)
	if !slices.Equal(units, []string{"b.service", "a.service"}) {
		t.Errorf("after a restart: %q", units)
	}
	do(t, l.ForgetUnnamed(), l.Close())
	l = open(t, dir)
	if units, err := l.UnnamedUnits(); err != nil || len(units) != 0 {
		t.Errorf("after a new scrub began: %q, %v", units, err)
	}
}

// A unit that does not start is reported, and tried again the next time.
func TestAUnitThatDoesNotStartStaysInTheLedger(t *testing.T) {
	l := open(t, t.TempDir())
	do(t, l.PutStopped("good.service"), l.PutStopped("bad.service"))
	systemd := startsOnly("good.service")
	got := scrub.PutBack(t.Context(), l, systemd, nil)
	if len(got) != 2 || !got[0].PutBack || got[1].PutBack || got[1].Message == "" {
		t.Errorf("%+v", got)
	}
	if left := stopped(t, l); !slices.Equal(left, []string{"bad.service"}) {
		t.Errorf("%q are left", left)
	}
}

type startsOnly string

func (startsOnly) Active(context.Context, string) (bool, error) { return false, nil }
func (startsOnly) Stop(context.Context, string) error           { return nil }
func (s startsOnly) Start(_ context.Context, unit string) error {
	if unit != string(s) {
		return errors.New("unit not found")
	}
	return nil
}

func TestWhosePersistenceModeIsOffIsKnownOverARestart(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	do(t, l.PutPersistent("GPU-b"), l.PutPersistent("GPU-a"), l.PutPersistent("GPU-b"), l.Close())
	l = open(t, dir)
	if got, err := l.PersistentGPUs(); err != nil || !slices.Equal(got, []string{"GPU-b", "GPU-a"}) {
		t.Errorf("after a restart: %q, %v", got, err)
	}
	do(t, l.DeletePersistent("GPU-b"), l.DeletePersistent("GPU-never"), l.Close())
	l = open(t, dir)
	if got, err := l.PersistentGPUs(); err != nil || !slices.Equal(got, []string{"GPU-a"}) {
		t.Errorf("after one is on again: %q, %v", got, err)
	}
}
