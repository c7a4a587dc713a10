package tasks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// serve mounts a FUSE whose server takes every request and answers none. After end is called, the
// server is dead.
func serve(t *testing.T, point string, owner int, options ...string) (end func()) {
	t.Helper()
	ok(t, os.MkdirAll(point, 0o755))
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR, 0)
	if err != nil {
		t.Skipf("no FUSE here: %v", err)
	}
	ok(t, unix.Mount("sshfs", point, "fuse.sshfs", 0, strings.Join(append(options, fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", fd, owner, owner)), ",")))
	go func() {
		buf := make([]byte, 1<<20)
		for {
			if _, err := unix.Read(fd, buf); errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EBADF) {
				return
			}
		}
	}()
	return func() { ok(t, unix.Close(fd)) }
}

// soon fails the test if do does not return, and then frees do.
func soon(t *testing.T, m *machine.Machine, what string, do func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	hung := time.NewTimer(20 * time.Second)
	defer hung.Stop()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case <-hung.C:
		t.Errorf("%s: hangs", what)
		_, err := m.AbortStuckFUSE()
		ok(t, err)
		<-done
	}
}

func points(t *testing.T, m *machine.Machine) (all []string) {
	t.Helper()
	mounts, err := m.Mounts()
	ok(t, err)
	for _, mt := range mounts {
		all = append(all, mt.Point)
	}
	return all
}

func TestAFUSEThatNeverAnswersHoldsUpNoTask(t *testing.T) {
	files := carried(t)
	if !jail(t) {
		return
	}
	h := jailed(t, files)
	ok(t, unix.Mknod("/dev/fuse", unix.S_IFCHR|0o600, int(unix.Mkdev(10, 229))))
	m := h.Machine
	h.Scratch = []string{"/scratch*/*"}
	ok(t, os.MkdirAll("/scratch0", 0o755))
	serve(t, "/tmp/of bob's", bystanderUID, "allow_other")
	serve(t, "/home/bob/mnt", bystanderUID)
	// A validation, and a revoke of another user, meet the FUSE; neither detaches it.
	v := newLook(h, &taskcatalog.Baseline{Users: []taskcatalog.BaselineUser{{Name: "root"}}})
	v.users = map[uint32]string{0: "root"}
	for what, look := range map[string]func(context.Context, *validation) ([]item, error){
		"files": lookFiles, "mounts": lookMounts, "scratch": lookScratch, "homes": lookHomes,
	} {
		soon(t, m, "look at "+what, func() error {
			_, err := look(t.Context(), v)
			return err
		})
	}
	for _, hung := range []string{"/home/alice/data", "/scratch0/alice", "/srv/alice", "/home/alice/.ssh"} {
		serve(t, hung, attackerUID, "allow_other")
	}
	serve(t, "/var/tmp/dead", attackerUID)()
	// The whole home is covered, and every mount in it.
	serve(t, "/home/alice", attackerUID)
	soon(t, m, "a look through a process's root", func() error {
		if _, err := m.StatIn("/proc/self/root", "/srv/alice/x"); !errors.Is(err, machine.ErrFUSE) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
	soon(t, m, "revoke", func() error {
		_, _, err := revoke(t, h, "a-1", "alice")
		return err
	})
	for _, at := range points(t, m) {
		if slices.Contains([]string{"/home/alice", "/home/alice/data", "/home/alice/.ssh", "/scratch0/alice", "/srv/alice", "/var/tmp/dead"}, at) {
			t.Errorf("%s is still mounted", at)
		}
	}
	if got := points(t, m); !slices.Contains(got, "/home/bob/mnt") {
		t.Errorf("another user's mount is gone: %q", got)
	}
	if there("/", "home/alice") {
		t.Error("the home is still there")
	}
}

func TestACleanupTakesEveryStrangersFUSEOffBeforeItLooks(t *testing.T) {
	files := carried(t)
	if !jail(t) {
		return
	}
	h := jailed(t, files)
	ok(t, unix.Mknod("/dev/fuse", unix.S_IFCHR|0o600, int(unix.Mkdev(10, 229))))
	m := h.Machine
	h.Scratch = []string{"/scratch*/*"}
	base := &taskcatalog.Baseline{}
	for _, mt := range func() []machine.Mount { all, err := m.Mounts(); ok(t, err); return all }() {
		base.Mounts = append(base.Mounts, host.MountName(mt))
	}
	for _, hung := range []string{"/scratch0", "/tmp/x", "/srv/elsewhere"} {
		serve(t, hung, 0, "allow_other") // mounted by a tenant with sudo
	}
	serve(t, "/var/tmp/dead", 0)()
	c := &cleanup{Run: &host.Run{Host: h}, m: m, params: &taskcatalog.StorageCleanupParams{}, known: host.Known{Base: base}}
	soon(t, m, "scratch", func() error { _, err := c.matchScratch(func(string, error) {}); return err })
	soon(t, m, "mounts", c.served)
	soon(t, m, "temporary", func() error { return c.empty(t.Context(), "temporary", "/tmp", machine.Tree{Remove: everything}) })
	if c.result.Failed > 0 {
		t.Errorf("%+v", c.report.Dispositions)
	}
	if got := points(t, m); len(got) != len(base.Mounts) {
		t.Errorf("left are %q", got)
	}
}

// A thread that waits for an answer cannot be killed.
func TestWhoWaitsForAFUSEIsFreed(t *testing.T) {
	files := carried(t)
	if !jail(t) {
		return
	}
	h := jailed(t, files)
	ok(t, unix.Mknod("/dev/fuse", unix.S_IFCHR|0o600, int(unix.Mkdev(10, 229))))
	serve(t, "/srv/hung", 0, "allow_other")
	done := make(chan error, 1)
	go func() { done <- unix.Stat("/srv/hung/x", &unix.Stat_t{}) }()
	for end := time.Now().Add(time.Minute); ; {
		aborted, err := h.Machine.AbortStuckFUSE()
		ok(t, err)
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
