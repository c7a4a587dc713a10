package validate

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/cleanup"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/users"
	"github.com/hostler/hostler/taskcatalog"
)

const canary = "canary-5be1-of-a-tenant"

// canaries are the places where a tenant leaves a token, each with the single step of a turnover
// that removes the token. alices marks the files that alice owns.
var canaries = []struct {
	step, file string
	alices     bool
}{
	{"files", "srv/alice", true},
	{"containers", "var/lib/docker/volumes/v/_data/x", false},
	{"temporary", "tmp/x", false},
	{"temporary", "var/tmp/x", false},
	{"ipc", "dev/shm/x", false},
	{"scratch", "scratch0/models/weights", false},
	{"homes", "home/mallory/x", false},
	{"homes", "root/.bash_history", false},
	{"dumps", "var/crash/core.1", false},
	// Two steps remove each of these, so that either alone may fail.
	{"", "home/alice/.ssh/authorized_keys", true},
	{"", "dev/shm/alice", true},
	{"", "var/spool/cron/crontabs/alice", false}, // a tenant with sudo created the crontab
	{"", "var/spool/cron/atjobs/a0000101b2c3d4", true},
}

// turnover plants all tokens, cleans, searches and judges.
func turnover(t *testing.T) (left []string, verdict taskcatalog.Verdict, report taskcatalog.Report) {
	t.Helper()
	w := newWhole(t)
	w.h.Scratch = []string{"/scratch*"}
	for _, dir := range []string{"scratch0", "srv", "var/lib/docker", "var/crash"} {
		hosttest.OK(t, os.MkdirAll(filepath.Join(w.dir, dir), 0o755))
	}
	w.take(t)
	user := letIn(t, w.h, "a-1", "alice")
	for _, c := range canaries {
		hosttest.Put(t, w.dir, c.file, canary+"\n")
		if c.alices {
			hosttest.OK(t, os.Lchown(filepath.Join(w.dir, c.file), int(user.UID), int(user.UID)))
		}
	}
	if n := len(w.search(t)); n != len(canaries) {
		t.Fatalf("the search finds %d of %d tokens before anything is cleaned", n, len(canaries))
	}
	// The search and the verdict show any failure here.
	_, _ = putOut(t, w.h, "a-1", "alice")
	_, _ = sweep(t, w.h, w.base)
	judged, report := w.judge(t)
	return w.search(t), judged.Verdict, report
}

// search looks for the token in every file of the machine.
func (w *whole) search(t *testing.T) (found []string) {
	t.Helper()
	hosttest.OK(t, filepath.WalkDir(w.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(name)
		if bytes.Contains(raw, []byte(canary)) {
			found = append(found, strings.TrimPrefix(name, w.dir+"/"))
		}
		return err
	}))
	return found
}

func TestATurnoverLeavesNoTokenOfTheTenant(t *testing.T) {
	left, verdict, report := turnover(t)
	if len(left) > 0 || verdict != taskcatalog.VerdictClean {
		t.Errorf("left are %q, and the verdict is %s: %q", left, verdict, told(report))
	}
}

// A step that falsely claims success leaves a token for the search, and no clean verdict. Where
// another step removes the token too, the verdict is clean.
func TestAStepThatIsBrokenIsSeen(t *testing.T) {
	revokes := users.Steps
	for i, s := range revokes {
		t.Run("revoke "+s.Name, func(t *testing.T) {
			t.Cleanup(func() { users.Steps = revokes })
			users.Steps = slices.Delete(slices.Clone(revokes), i, i+1)
			withoutStep(t, s.Name)
		})
	}
	cleanups := cleanup.Steps
	for i, s := range cleanups {
		t.Run("cleanup "+s.Check, func(t *testing.T) {
			t.Cleanup(func() { cleanup.Steps = cleanups })
			cleanup.Steps = slices.Delete(slices.Clone(cleanups), i, i+1)
			withoutStep(t, s.Check)
		})
	}
}

// withoutStep runs a turnover in which one step does nothing.
func withoutStep(t *testing.T, step string) {
	t.Helper()
	left, verdict, report := turnover(t)
	var want []string
	for _, c := range canaries {
		if c.step == step {
			want = append(want, c.file)
		}
	}
	slices.Sort(want)
	if step == "ipc" && strings.Contains(t.Name(), "revoke") {
		want = nil // the other step of that name removes the token
	}
	if !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
	if clean := verdict == taskcatalog.VerdictClean; clean != (len(left) == 0 && step != "account") {
		t.Errorf("with %q left, the verdict is %s: %q", left, verdict, told(report))
	}
}
