package selfupdate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// SelfTest is the output of hostler-agent self-test: proof that the program runs on this machine
// and reads its configuration and identity, with the program's version and abilities.
type SelfTest struct {
	Version string              `json:"version"`
	Commit  string              `json:"commit"`
	State   release.StateSchema `json:"state_schema"`
	Types   []string            `json:"task_types"`
}

// Limits on the time and the output of a self-test.
const (
	selfTestTime = 60 * time.Second
	maxSelfTest  = 64 << 10
)

// RunSelfTest returns a function that runs the self-test of the program at a path.
func RunSelfTest(config string) func(context.Context, string) (*SelfTest, error) {
	return func(ctx context.Context, file string) (*SelfTest, error) {
		ctx, cancel := context.WithTimeout(ctx, selfTestTime)
		defer cancel()
		cmd := exec.CommandContext(ctx, file, "self-test", "--config", config, "-o", "json")
		cmd.Env, cmd.Dir = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/"}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = 5 * time.Second
		out, said := &truncated{most: maxSelfTest}, &truncated{most: 4096}
		cmd.Stdout, cmd.Stderr = out, said
		if err := cmd.Run(); err != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("the self-test did not end within %s", selfTestTime)
			}
			return nil, fmt.Errorf("%w: %s", err, taskcatalog.Clean(said.String(), 300))
		}
		t := new(SelfTest)
		// A newer program may print more fields.
		if err := decodeLoose(out.Bytes(), t); err != nil {
			return nil, errors.New("the output of the self-test cannot be read")
		}
		return t, nil
	}
}

// truncated keeps the beginning of a program's output.
type truncated struct {
	bytes.Buffer
	most int
}

func (s *truncated) Write(p []byte) (int, error) {
	if room := s.most - s.Len(); room > 0 {
		s.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
