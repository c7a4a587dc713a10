package hosttest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
)

// System runs the rest of a test in a child on a copy of this system that ends with the test: an
// overlay over its root, in separate mount, PID, IPC and network namespaces. Programs run there as they
// do here, and change nothing here. System reports whether the caller is the child.
func System(t *testing.T) bool {
	t.Helper()
	const mark = "HOSTLER_TEST_SYSTEM"
	if os.Getenv(mark) != t.Name() {
		if os.Getuid() != 0 {
			t.Skip("namespaces of its own need root")
		}
		self, err := os.Executable()
		OK(t, err)
		cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), mark+"="+t.Name(), "HOSTLER_TEST_ROOT="+t.TempDir(), "TMPDIR=/tmp")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET,
			Pdeathsig:  syscall.SIGKILL,
		}
		out, err := cmd.CombinedOutput()
		t.Logf("on a copy of the system:\n%s", out)
		OK(t, err)
		return false
	}
	runtime.LockOSThread()
	dir := os.Getenv("HOSTLER_TEST_ROOT")
	root := filepath.Join(dir, "root")
	OK(t, unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	OK(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"))
	for _, name := range []string{"upper", "work", "root"} {
		OK(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	if err := unix.Mount("overlay", root, "overlay", 0, "lowerdir=/,upperdir="+dir+"/upper,workdir="+dir+"/work"); err != nil {
		t.Skipf("no overlay over the root here: %v", err)
	}
	OK(t, unix.Mount("proc", filepath.Join(root, "proc"), "proc", 0, ""))
	OK(t, unix.Mount("/dev", filepath.Join(root, "dev"), "", unix.MS_BIND, ""))
	for _, name := range []string{"tmp", "run"} {
		OK(t, unix.Mount("tmpfs", filepath.Join(root, name), "tmpfs", 0, "mode=1777"))
	}
	OK(t, os.MkdirAll(filepath.Join(root, "var/lib/hostler-agent"), 0o700))
	OK(t, unix.Chroot(root))
	OK(t, os.Chdir("/"))
	return true
}

// SystemHost is the host of a child of System. Its Systemd runs services as children.
func SystemHost(t *testing.T) (*host.Host, *Services) {
	t.Helper()
	m, err := machine.Open("/")
	OK(t, err)
	t.Cleanup(func() { m.Close() })
	runner, err := command.New("/", time.Now)
	OK(t, err)
	t.Cleanup(func() { runner.Close() })
	services := &Services{}
	return &host.Host{
		Machine: m, Now: time.Now, Log: zap.NewNop(), Commands: runner, Systemd: services,
		StateDir: "/var/lib/hostler-agent", ConfigDir: "/etc/hostler-agent",
	}, services
}

// Services runs the services of Finish as children, and is otherwise a Systemd without units.
type Services struct {
	Systemd
	Ran [][]string
	// Started is called while a service runs, with what ends the service as a power cut would.
	Started func(argv []string, cut func())
}

func (s *Services) Finish(ctx context.Context, of host.Service) (int, error) {
	s.Ran = append(s.Ran, of.Argv)
	out, err := os.Create(of.Output)
	if err != nil {
		return -1, err
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, of.Argv[0], of.Argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = of.Env, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cut := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = func() error { cut(); return nil }
	if err := cmd.Start(); err != nil {
		return -1, err
	}
	if s.Started != nil {
		go s.Started(of.Argv, cut)
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return cmd.ProcessState.ExitCode(), err
}
