package validate

import (
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// forkAndExit starts a process of a stranger that starts its successor and ends, over and over:
// each lives for about a millisecond. The Go runtime plays no part in the child.
//
//go:norace
func forkAndExit() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pause := unix.Timespec{Nsec: 1e6}
	child, _, _ := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if child != 0 {
		return
	}
	syscall.RawSyscall(unix.SYS_SETRESUID, stranger, stranger, stranger)
	for {
		child, _, _ := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if child != 0 {
			syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
	}
}

// This test uses the kernel's own /proc, and a process that is gone before it can be read.
func TestAProcessThatForksAndExitsAtOnceIsNeverClean(t *testing.T) {
	if !hosttest.Jail(t) {
		return
	}
	signal.Ignore(unix.SIGCHLD) // so that each child is reaped at once
	m, err := machine.Open("/")
	hosttest.OK(t, err)
	h := &host.Host{Machine: m, Accounts: &hosttest.Ledger{}}
	look := func() ([]item, error) {
		s := &repeatedCheck{v: newLook(h, &taskcatalog.Baseline{}), check: check{rows: []string{"processes"}, look: lookProcesses, settles: true}}
		for !s.done {
			s.look(t.Context())
		}
		return s.result()
	}
	if items, err := look(); len(items) > 0 || err != nil {
		t.Fatalf("with nobody else there: %+v, %v", items, err)
	}
	forkAndExit()
	for items := []item(nil); len(items) == 0 && t.Context().Err() == nil; { // until the process belongs to the stranger
		items, _ = look()
	}
	for range 500 {
		if items, err := look(); len(items) == 0 && err == nil {
			t.Error("the look found nobody")
		}
	}
}
