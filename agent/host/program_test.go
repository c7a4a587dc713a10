package host

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
)

// A tool that prints errors without end must not exhaust the agent's memory.
func TestWhatAProgramSaysIsBounded(t *testing.T) {
	h, dir := &Host{}, t.TempDir()
	big := dir + "/big"
	if err := errors.Join(os.WriteFile(big, []byte("begins so\n"), 0o600), os.Truncate(big, 256<<20)); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := h.Program(t.Context(), "/bin/cat", big, big+".gone")
	runtime.ReadMemStats(&after)
	if ExitCode(err) != 1 || !strings.Contains(err.Error(), "begins so") || len(err.Error()) > 2000 {
		t.Errorf("got %.300v", err)
	}
	if out, err := Output(t.Context(), "/bin/cat", big); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %d bytes of output, %v", len(out), err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("%d bytes were taken to run a tool", used)
	}
}
