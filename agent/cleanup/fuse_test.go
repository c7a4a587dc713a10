package cleanup

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

func TestACleanupTakesEveryStrangersFUSEOffBeforeItLooks(t *testing.T) {
	files := hosttest.Libraries(t)
	if !hosttest.Jail(t) {
		return
	}
	h := hosttest.Jailed(t, files)
	hosttest.OK(t, unix.Mknod("/dev/fuse", unix.S_IFCHR|0o600, int(unix.Mkdev(10, 229))))
	m := h.Machine
	h.Scratch = []string{"/scratch*/*"}
	base := &taskcatalog.Baseline{}
	for _, mt := range func() []machine.Mount { all, err := m.Mounts(); hosttest.OK(t, err); return all }() {
		base.Mounts = append(base.Mounts, host.MountName(mt))
	}
	for _, hung := range []string{"/scratch0", "/tmp/x", "/srv/elsewhere"} {
		hosttest.HangFUSE(t, hung, 0, "allow_other") // mounted by a tenant with sudo
	}
	hosttest.HangFUSE(t, "/var/tmp/dead", 0)()
	c := &cleanup{Run: &host.Run{Host: h}, m: m, params: &taskcatalog.StorageCleanupParams{}, known: host.Known{Base: base}}
	hosttest.Soon(t, m, "scratch", func() error { _, err := c.matchScratch(func(string, error) {}); return err })
	hosttest.Soon(t, m, "mounts", c.detachFUSE)
	hosttest.Soon(t, m, "temporary", func() error {
		return c.empty(t.Context(), "temporary", "/tmp", machine.Tree{Remove: machine.AllEntries})
	})
	if c.result.Failed > 0 {
		t.Errorf("%+v", c.report.Dispositions)
	}
	if got := hosttest.MountPoints(t, m); len(got) != len(base.Mounts) {
		t.Errorf("left are %q", got)
	}
}

// A thread that waits for an answer cannot be killed.
func TestWhoWaitsForAFUSEIsFreed(t *testing.T) {
	files := hosttest.Libraries(t)
	if !hosttest.Jail(t) {
		return
	}
	h := hosttest.Jailed(t, files)
	hosttest.OK(t, unix.Mknod("/dev/fuse", unix.S_IFCHR|0o600, int(unix.Mkdev(10, 229))))
	hosttest.HangFUSE(t, "/srv/hung", 0, "allow_other")
	done := make(chan error, 1)
	go func() { done <- unix.Stat("/srv/hung/x", &unix.Stat_t{}) }()
	for end := time.Now().Add(time.Minute); ; {
		aborted, err := h.Machine.AbortStuckFUSE()
		hosttest.OK(t, err)
		if len(aborted) > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("nobody is seen to wait")
		}
	}
	if err := <-done; err == nil {
		t.Error("it was answered")
	}
}
