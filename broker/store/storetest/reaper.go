package storetest

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// A server must not outlive the test process that started it, however the process ends. The reaper
// is this test binary, started again: it waits on a pipe that the end of the test process closes,
// then stops the server and removes its directory.
const (
	reapPID = "HOSTLER_STORETEST_REAP_PID"
	reapDir = "HOSTLER_STORETEST_REAP_DIR"
)

func init() {
	pid, err := strconv.Atoi(os.Getenv(reapPID))
	if err != nil || pid <= 1 {
		return
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = syscall.Kill(pid, syscall.SIGQUIT)
	for deadline := time.Now().Add(10 * time.Second); syscall.Kill(pid, 0) == nil && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	_ = os.RemoveAll(os.Getenv(reapDir))
	os.Exit(0)
}

func reap(pid int, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// Plain descriptors: the end held open must never be closed.
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		return err
	}
	r := os.NewFile(uintptr(ends[0]), "reaper")
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), reapPID+"="+strconv.Itoa(pid), reapDir+"="+dir)
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // an interrupt is for the tests
	if err := cmd.Start(); err != nil {
		return err
	}
	return r.Close()
}
