package gpu_test

import (
	"testing"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/test/fakegpu"
)

func TestALookReadsEachGPUOnce(t *testing.T) {
	l := newLab(t, "fault.1 remap_pending", "fault.2 remap_failed", "pcie_width.3 8", "throttle.4 68", "nvlinks.5 18", "nvlinks_up.5 17",
		"recovery.6 1")
	s, err := l.Look(t.Context(), "nvidia")
	if err != nil || len(s.GPUs) != devices || s.Driver != "570.86.15" || s.Problem != "" || len(s.Failed) != 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	for i, g := range s.GPUs {
		want := map[string]int64{
			"answers": 1, "ecc_uncorrected": 0, "ecc_total": 0, "remap_pending": 0, "remap_failed": 0, "pcie_width": 16, "pcie_width_max": 16,
			"throttle_sw_power": 0, "throttle_hw_thermal": 0, "throttle_hw_power": 0,
		}
		recovery := "none"
		switch i {
		case 1:
			want["remap_pending"] = 1
		case 2:
			want["remap_failed"] = 1
		case 3:
			want["pcie_width"] = 8
		case 4:
			want["throttle_sw_power"], want["throttle_hw_thermal"] = 1, 1
		case 5:
			want["nvlink_active"] = 17
		case 6:
			recovery = "gpu_reset"
		}
		for name, n := range want {
			if got, measured := g.Numbers[name]; got != n || !measured {
				t.Errorf("GPU %d: %s is %d (measured: %v), want %d", i, name, got, measured, n)
			}
		}
		if _, linked := g.Numbers["nvlink_active"]; linked != (i == 5) {
			t.Errorf("GPU %d: NVLinks %v", i, g.Numbers)
		}
		if g.Texts["recovery"] != recovery || g.Texts["partition"] != "mig_disabled" || g.PCIAddress == "" || g.UUID == "" {
			t.Errorf("GPU %d: %+v", i, g)
		}
	}
}

func TestALookAtGPUsThatDoNotAnswer(t *testing.T) {
	l := newLab(t, "fault library_mismatched")
	if s, err := l.Look(t.Context(), "nvidia"); err != nil || s.Problem != gpu.CodeLibraryMismatched || len(s.GPUs) != 0 {
		t.Errorf("a library that does not fit: %+v, %v", s, err)
	}
	if _, err := newLab(t, "fault crash init").Look(t.Context(), "nvidia"); codeOf(err) != gpu.CodeHelperCrashed {
		t.Errorf("a library that crashes: %v", err)
	}
	if _, err := newLab(t).Look(t.Context(), "matrox"); codeOf(err) != gpu.CodeUnsupported {
		t.Errorf("a vendor that nobody knows: %v", err)
	}
}

// BenchmarkLookAtEightGPUs is the cost of the look of each minute.
func BenchmarkLookAtEightGPUs(b *testing.B) {
	m, err := fakegpu.New(b.TempDir(), "devices 8", "memory 16M")
	if err != nil {
		b.Fatal(err)
	}
	h := gpu.NewHelper("hostler-agent", childWord)
	h.Env = m.Env()
	for b.Loop() {
		if s, err := h.Look(b.Context(), "nvidia"); err != nil || len(s.GPUs) != 8 {
			b.Fatalf("%+v, %v", s, err)
		}
	}
}
