package tasks

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// programEnv is all of the environment that a system tool gets.
var programEnv = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/"}

// program runs one of the system's own tools by argv, in a process group that
// ends with the context. What it printed comes back in the error, bounded.
func (h *Host) program(ctx context.Context, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = programEnv, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	said := &bounded{limit: 4096}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w: %s", argv[0], err, taskcatalog.Clean(string(said.kept), 300))
	}
	return nil
}

// account runs one of shadow's tools on the machine's own files.
func (h *Host) account(ctx context.Context, tool string, args ...string) error {
	argv := []string{"/usr/sbin/" + tool}
	if !h.Machine.Live() {
		argv = append(argv, "--prefix", h.Machine.Dir())
	}
	return h.program(ctx, append(argv, args...)...)
}

// exitCode is a program's exit code, or -1.
func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}
