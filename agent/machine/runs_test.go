package machine_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/machine"
)

// started runs a program and waits until the path that it shows is the expected path.
func started(t *testing.T, m *machine.Machine, shows string, args ...string) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	for end := time.Now().Add(time.Minute); time.Now().Before(end); runtime.Gosched() {
		if exe, err := m.Exe(cmd.Process.Pid); err == nil && exe == shows {
			return cmd.Process.Pid
		}
		select {
		case <-ended:
			t.Skip("it did not start: no mount namespace is to be had")
		default:
		}
	}
	t.Fatalf("%v does not show %s", args, shows)
	return 0
}

func TestAProgramIsKnownByItsFileAndNotByThePathItShows(t *testing.T) {
	m, err := machine.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program, impostor := filepath.Join(dir, "daemon"), filepath.Join(dir, "impostor")
	if err := errors.Join(os.WriteFile(program, text, 0o755), os.WriteFile(impostor, text, 0o755)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		its  bool
	}{
		"the program": {[]string{program, "600"}, true},
		"another, mounted over it in its own namespace": {[]string{
			"unshare", "--user", "--map-root-user", "--mount", "sh", "-c", `mount --bind "$1" "$2" && exec "$2" 600`, "sh", impostor, program,
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			pid := started(t, m, program, c.args...)
			if its, err := m.Runs(pid, program); err != nil || its != c.its {
				t.Errorf("%t, %v", its, err)
			}
		})
	}
}
