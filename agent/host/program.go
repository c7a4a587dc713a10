package host

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// programEnv is the whole environment of a system tool.
var programEnv = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/"}

// Program runs a system tool by argv, in a process group that is killed with the context. The error
// holds the first 300 characters of the tool's output.
func (h *Host) Program(ctx context.Context, argv ...string) error {
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

// AccountTool runs a tool of the shadow package, such as useradd, on the files of Machine.
func (h *Host) AccountTool(ctx context.Context, tool string, args ...string) error {
	argv := []string{"/usr/sbin/" + tool}
	if !h.Machine.Live() {
		argv = append(argv, "--prefix", h.Machine.Dir())
	}
	return h.Program(ctx, append(argv, args...)...)
}

// ExitCode returns the exit code of a failed Program, or -1 if the program did not exit.
func ExitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// Output runs one of the system's own tools by argv and returns its standard output,
// 32 MiB at most. A tool that runs for longer than a minute is killed.
func Output(ctx context.Context, argv ...string) ([]byte, error) {
	const limit = 32 << 20
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = programEnv, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, said := &bounded{limit: limit}, &bounded{limit: 4096}
	cmd.Stdout, cmd.Stderr = out, said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", argv[0], err, taskcatalog.Clean(string(said.kept), 300))
	}
	if len(out.kept) > limit {
		return nil, fmt.Errorf("%s printed more than %d bytes", argv[0], limit)
	}
	return out.kept, nil
}

// bounded keeps one byte more than its limit and discards the rest. A bytes.Buffer would
// not do: io.Copy would use its ReadFrom and keep everything.
type bounded struct {
	kept  []byte
	limit int
}

func (b *bounded) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), max(0, b.limit+1-len(b.kept)))]...)
	return len(p), nil
}
