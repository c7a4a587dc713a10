package machine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
)

// A former root may have mounted anything over a file of /proc or /sys. The test runs itself again
// in a mount namespace of its own, and mounts files there.
func TestWhatIsMountedOverAFileOfTheKernelIsNotRead(t *testing.T) {
	const inside = "HOSTLER_TEST_INSIDE"
	if os.Getenv(inside) == "" {
		if os.Getuid() != 0 {
			t.Skip("only root may mount the kernel's file systems")
		}
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		switch {
		case strings.Contains(string(out), "--- SKIP"):
			t.Skipf("%s", out)
		case cmd.ProcessState == nil:
			t.Skipf("no mount namespace: %v", err)
		case err != nil || !strings.Contains(string(out), "--- PASS"):
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	fd, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil || unix.FsconfigCreate(fd) != nil {
		t.Skipf("the kernel lets nobody mount here: %v", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	forged := filepath.Join(t.TempDir(), "forged")
	if err := os.WriteFile(forged, []byte("forged\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	self := "/proc/" + strconv.Itoa(os.Getpid())
	for _, name := range []string{"/proc/1/mountinfo", "/proc/meminfo", "/proc/sys/kernel/core_pattern", "/sys/kernel/uevent_seqnum", self + "/stat"} {
		if err := unix.Mount(forged, name, "", unix.MS_BIND, ""); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for over, with := range map[string]string{"/proc/version": "/proc/uptime", self + "/task": filepath.Dir(forged)} {
		if err := unix.Mount(with, over, "", unix.MS_BIND, ""); err != nil {
			t.Errorf("%s: %v", over, err)
		}
	}
	m, err := machine.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, name := range []string{"/proc/1/mountinfo", "/proc/meminfo", "/proc/sys/kernel/core_pattern", "/sys/kernel/uevent_seqnum", self + "/stat"} {
		if text, err := m.ReadFile(name, 16<<20); err != nil || string(text) == "forged\n" {
			t.Errorf("%s says %q, %v", name, text, err)
		}
	}
	if text, err := m.ReadFile("/proc/version", 4096); err != nil || !strings.HasPrefix(string(text), "Linux version ") {
		t.Errorf("one file of the kernel is read for another: %q, %v", text, err)
	}
	if names, err := m.Names(self + "/task"); err != nil || len(names) == 0 || names[0] == "forged" {
		t.Errorf("%v, %v", names, err)
	}
	mounts, err := m.Mounts()
	if err != nil || len(mounts) == 0 {
		t.Errorf("%v, %v", mounts, err)
	}
	for _, one := range mounts {
		if one.Point == "proc" || one.Point == "sysfs" {
			t.Errorf("the agent's own mount is in the table: %+v", one)
		}
	}
	if there, err := m.Has("/sys/fs/cgroup"); err != nil || !there {
		t.Errorf("what is mounted below by rule is not there: %v", err)
	}
}
