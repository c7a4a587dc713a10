package machine

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that is just being reaped is gone, and so is one whose number a thread has. The kernel
// refuses both in the same way; a thread is the one that a test can hold still.
func TestASignalToANumberThatLeadsNoProcessIsNoFault(t *testing.T) {
	m, err := Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	number, done := make(chan int), make(chan struct{})
	defer close(done)
	for range 2 { // one of two locked threads is not the leader
		go func() {
			runtime.LockOSThread()
			number <- unix.Gettid()
			<-done
		}()
	}
	thread := <-number
	if other := <-number; thread == unix.Getpid() {
		thread = other
	}
	if fd, err := unix.PidfdOpen(thread, 0); err == nil {
		_ = unix.Close(fd)
		t.Fatal("the kernel opens a thread as a process: this test proves nothing")
	}
	if err := m.Signal(Process{PID: thread}, unix.SIGKILL); err != nil {
		t.Error(err)
	}
}
