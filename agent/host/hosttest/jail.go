package hosttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Jail runs the rest of a test in a child that is alone on a machine of its own: root is a tmpfs
// with /proc, in separate mount, PID, IPC and network namespaces. jail reports whether the caller
// is the child.
func Jail(t *testing.T) bool {
	t.Helper()
	const mark = "HOSTLER_TEST_JAIL"
	if os.Getenv(mark) != t.Name() {
		if os.Getuid() != 0 {
			t.Skip("namespaces of its own need root")
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), mark+"="+t.Name(), "HOSTLER_TEST_ROOT="+t.TempDir(), "TMPDIR=/") // of the child's own root
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET,
			Pdeathsig:  syscall.SIGKILL,
		}
		out, err := cmd.CombinedOutput()
		t.Logf("in its own namespaces:\n%s", out)
		if err != nil {
			t.Fatal(err)
		}
		return false
	}
	runtime.LockOSThread()
	dir := os.Getenv("HOSTLER_TEST_ROOT")
	OK(t, unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	OK(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	OK(t, os.Mkdir(filepath.Join(dir, "proc"), 0o755))
	OK(t, unix.Mount("proc", filepath.Join(dir, "proc"), "proc", 0, ""))
	OK(t, unix.Chroot(dir))
	OK(t, os.Chdir("/"))
	return true
}

// OK ends the test if there is an error.
func OK(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
