package fakegpu

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func amdMachine(t *testing.T, config ...string) (m *Machine, run func(name string, args ...string) (string, int)) {
	t.Helper()
	m, err := New(t.TempDir(), append([]string{"vendor amd", "devices 2", "memory 4M"}, config...)...)
	if err != nil {
		t.Fatal(err)
	}
	return m, func(name string, args ...string) (string, int) {
		t.Helper()
		cmd := exec.Command(filepath.Join(m.Libs, name), args...)
		cmd.Env = append(os.Environ(), m.Env()...)
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
}

// amd-smi answers the shipped profiles' commands in JSON, for each GPU.
func TestAMDSMIAnswersWhatProfilesAsk(t *testing.T) {
	_, run := amdMachine(t)
	for _, command := range []string{"static --driver", "metric --mem-usage --ecc", "xgmi --metric", "list"} {
		out, code := run("amd-smi", append(strings.Fields(command), "--json")...)
		var gpus []map[string]any
		if err := json.Unmarshal([]byte(out), &gpus); err != nil || len(gpus) != 2 || code != 0 {
			t.Errorf("%s: %d, %v: %s", command, code, err, out)
		}
	}
	if out, code := run("amd-ctk", "cdi", "list"); code != 0 || !strings.Contains(out, "amd.com/gpu=1") {
		t.Errorf("amd-ctk: %d: %s", code, out)
	}
}

func TestAMDToolsFailWithoutADriver(t *testing.T) {
	_, run := amdMachine(t, "fault driver_missing")
	if _, code := run("amd-smi", "static", "--driver", "--json"); code != 255 {
		t.Errorf("amd-smi ends with %d", code)
	}
	if _, code := run("amd-ctk", "cdi", "list"); code == 0 {
		t.Error("amd-ctk ends with 0")
	}
}

func TestATenantOfAMDLeavesATokenUntilAReset(t *testing.T) {
	const token = "SECRET-OF-A-TENANT"
	m, run := amdMachine(t, "scrub_on_free off")
	if out, code := run("fakegpu-tenant-amd", "1048576", token); code != 0 {
		t.Fatalf("%d: %s", code, out)
	}
	for gpu := range 2 {
		if n, err := m.Count(gpu, token); err != nil || n < 50000 {
			t.Fatalf("GPU %d: %d tokens (%v)", gpu, n, err)
		}
	}
	if out, code := run("amd-smi", "reset", "--gpureset", "--gpu", "0", "--json"); code != 0 || !strings.Contains(out, "Successfully") {
		t.Fatalf("%d: %s", code, out)
	}
	if n, err := m.Count(0, token); err != nil || n != 0 {
		t.Errorf("%d tokens after a reset (%v)", n, err)
	}
	if n, err := m.Count(1, token); err != nil || n == 0 {
		t.Errorf("the other GPU was reset, too (%v)", err)
	}
}
