package gpu

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
)

// HolderWord makes this test binary a tenant's process that holds a device in a way known to Hold.
const HolderWord = "gpu-holder-of-the-test"

func init() {
	if len(os.Args) > 1 && os.Args[1] == HolderWord {
		runtime.LockOSThread() // main runs on the first thread and may end that thread
	}
}

// Hold reports when it holds the device, and goes on until it is killed.
func Hold(how string) {
	if what, ok := strings.CutPrefix(how, "covered "); ok {
		seesCovered(what)
	}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread()
		ready <- hold(how)
		for {
			_, _ = unix.Read(0, make([]byte, 1)) // nobody writes
		}
	}()
	if err := <-ready; err != nil {
		println(err.Error())
		os.Exit(1)
	}
	_, _ = unix.Write(1, []byte("ready\n"))
	if strings.Contains(how, "first thread ended") {
		_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
	}
	for {
		_, _ = unix.Read(0, make([]byte, 1))
	}
}

func hold(how string) error {
	if how == "descriptors of a thread" {
		if err := unix.Unshare(unix.CLONE_FILES); err != nil {
			return err
		}
	}
	if hide := hidings[how]; hide != nil {
		return hide()
	}
	if !strings.HasPrefix(how, "mapped") {
		_, err := unix.Open("/dev/full", unix.O_RDWR|unix.O_CLOEXEC, 0)
		return err
	}
	if how == "mapped among many" {
		if err := mapMany(); err != nil {
			return err
		}
	}
	fd, err := unix.Open("/dev/zero", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	flags, at := unix.MAP_PRIVATE, uintptr(0)
	if how == "mapped low" { // a low address, which /proc/PID/maps pads with zeros
		flags, at = flags|unix.MAP_FIXED_NOREPLACE, 0x200000
	}
	if _, _, errno := unix.Syscall6(unix.SYS_MMAP, at, 4096, unix.PROT_READ, uintptr(flags), uintptr(fd), 0); errno != 0 {
		return errno
	}
	return unix.Close(fd)
}

// mapMany makes more than 16 MiB of /proc/PID/maps: a long name, many times, mapped below the
// device so that these lines come first.
func mapMany() error {
	dir, err := os.MkdirTemp("", "hostler-maps-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	long := filepath.Join(dir, strings.Repeat(strings.Repeat("x", 250)+"/", 12))
	if err := os.MkdirAll(long, 0o700); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(long, "file"))
	if err != nil {
		return err
	}
	if err := f.Truncate(4096); err != nil {
		return err
	}
	for range 8000 {
		if _, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED); err != nil {
			return err
		}
	}
	return nil
}

// holds starts a tenant's process and waits until the process holds a device.
func holds(t *testing.T, m *machine.Machine, how string) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", HolderWord, how)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		in.Close()
		_ = cmd.Wait()
	})
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatalf("it does not hold the device: %v %s", err, said.String())
	}
	if !strings.Contains(how, "first thread ended") {
		return cmd.Process.Pid
	}
	for end := time.Now().Add(time.Minute); ; {
		p, err := m.Process(cmd.Process.Pid)
		if err != nil || time.Now().After(end) {
			t.Fatalf("its first thread did not end: %+v, %v", p, err)
		}
		if p.State == "Z" {
			if _, alive := m.Alive(p); !alive {
				t.Error("it is said to have ended, and goes on")
			}
			return p.PID
		}
		runtime.Gosched()
	}
}
