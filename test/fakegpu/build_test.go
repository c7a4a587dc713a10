package fakegpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const token = "SECRET-OF-A-TENANT"

// run runs a program of the machine.
func (m *Machine) run(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(m.Libs, name), args...)
	cmd.Env = append(os.Environ(), m.Env()...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

// left runs a tenant to its end, then a program that opens the driver, and counts the tenant's
// leftovers.
func left(t *testing.T, then []string, config ...string) int {
	t.Helper()
	m, err := New(t.TempDir(), append(config, "devices 1", "memory 4M")...)
	if err != nil {
		t.Fatal(err)
	}
	m.run(t, "fakegpu-tenant", "1048576", token)
	m.run(t, "nvidia-smi", then...)
	n, err := m.Count(0, token)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestMemoryKeepsWhatATenantLeft(t *testing.T) {
	if n := left(t, nil, "scrub_on_free off"); n < 50000 {
		t.Errorf("%d tokens in the memory", n)
	}
}

func TestADriverThatScrubsOnFreeLeavesNothing(t *testing.T) {
	if n := left(t, nil); n != 0 {
		t.Errorf("%d tokens in the memory", n)
	}
}

func TestATrueResetClearsMemoryAndALyingOneDoesNot(t *testing.T) {
	reset := []string{"--gpu-reset", "-i", "0"}
	if n := left(t, reset, "scrub_on_free off"); n != 0 {
		t.Errorf("%d tokens after a reset", n)
	}
	if n := left(t, reset, "scrub_on_free off", "fault lying_reset"); n == 0 {
		t.Error("a lying reset cleared the memory")
	}
}

// nvidia-smi answers the shipped profiles' queries for each GPU.
func TestNVIDIASMIAnswersWhatProfilesAsk(t *testing.T) {
	m, err := New(t.TempDir(), "devices 2", "memory 4M")
	if err != nil {
		t.Fatal(err)
	}
	for _, fields := range []string{
		"index,uuid,pci.bus_id,name,driver_version,vbios_version",
		"uuid,memory.used,memory.total,utilization.gpu,compute_mode,ecc.errors.uncorrected.volatile.total",
	} {
		m.run(t, "nvidia-smi", "--query-gpu="+fields, "--format=csv,noheader")
	}
}
