package readme

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// blocks are the lines between ```sh and ```, in their order.
func blocks(text string) string {
	var script strings.Builder
	in := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "```"):
			in = strings.TrimSpace(line) == "```sh"
		case in:
			script.WriteString(line)
		}
	}
	return script.String()
}

// The agent of the first door is allowed to look and nothing else, so this may
// run on any machine.
func TestTheReadmesCommandsWorkAsWritten(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	script := blocks(string(readme))
	if !strings.Contains(script, "allow: probe") || !strings.Contains(script, "trust rotate") {
		t.Fatalf("the README's door and its walk are not in %q", script)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euxo", "pipefail", "-c", script)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "NO_COLOR=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	// Whatever the script left running ends with the test.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if err != nil {
		t.Fatalf("a command of the README fails: %v\n%s", err, out)
	}
	for _, want := range []string{
		"refused by the node itself", "not_allowed", "refused: exit status 3", "seals             ok",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in what the README's commands print:\n%s", want, out)
		}
	}
}
