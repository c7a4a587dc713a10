package hosttest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
)

// HangFUSE mounts a FUSE whose server takes every request and answers none. After end is called, the
// server is dead.
func HangFUSE(t *testing.T, point string, owner int, options ...string) (end func()) {
	t.Helper()
	OK(t, os.MkdirAll(point, 0o755))
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR, 0)
	if err != nil {
		t.Skipf("no FUSE here: %v", err)
	}
	OK(t,
		unix.Mount("sshfs", point, "fuse.sshfs", 0,
			strings.Join(append(options, fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", fd, owner, owner)), ",")))
	go func() {
		buf := make([]byte, 1<<20)
		for {
			if _, err := unix.Read(fd, buf); errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EBADF) {
				return
			}
		}
	}()
	return func() { OK(t, unix.Close(fd)) }
}

// Soon fails the test if do does not return, and then frees do.
func Soon(t *testing.T, m *machine.Machine, what string, do func() error) {
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
		OK(t, err)
		<-done
	}
}

// MountPoints lists where file systems are mounted.
func MountPoints(t *testing.T, m *machine.Machine) (all []string) {
	t.Helper()
	mounts, err := m.Mounts()
	OK(t, err)
	for _, mt := range mounts {
		all = append(all, mt.Point)
	}
	return all
}
