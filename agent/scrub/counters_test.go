package scrub

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// figures are readings of a single counter; -1 is unreadable.
func figures(set func(*gpu.Health, *uint64), all ...int) []gpu.Health {
	looks := make([]gpu.Health, len(all))
	for i, n := range all {
		if n >= 0 {
			v := uint64(n)
			set(&looks[i], &v)
		}
	}
	return looks
}

func TestACounterIsComparedPieceByPiece(t *testing.T) {
	t.Parallel()
	volatile := func(h *gpu.Health, n *uint64) { h.ECCUncorrected = n }
	total := func(h *gpu.Health, n *uint64) { h.ECCTotal = n }
	links := func(h *gpu.Health, n *uint64) { h.LinkErrors = n }
	for _, c := range []struct {
		vendor  string
		set     func(*gpu.Health, *uint64)
		looks   []int
		restart int
		code    taskcatalog.Code
	}{
		{"nvidia", volatile, []int{5, 5, 0, 0}, 2, ""},
		{"nvidia", volatile, []int{5, 6, 0, 0}, 2, taskcatalog.CodeGPUHardwareFault}, // before the reset
		{"nvidia", volatile, []int{5, 5, 0, 3}, 2, taskcatalog.CodeGPUHardwareFault}, // after the reset, and lower than at first
		{"nvidia", volatile, []int{5, 5, 4, 4}, 2, taskcatalog.CodeGPUHardwareFault}, // right after the reset
		{"nvidia", volatile, []int{5, 5, 5, 5}, 0, ""},
		{"nvidia", volatile, []int{5, -1, 0, 0}, 2, ""},
		{"amd", volatile, []int{5, 5, 5, 5}, 2, ""}, // the driver keeps the counter
		{"amd", volatile, []int{5, 5, 5, 6}, 2, taskcatalog.CodeGPUHardwareFault},
		{"nvidia", total, []int{5, 5, 6, 6}, 2, taskcatalog.CodeGPUHardwareFault},
		{"nvidia", links, []int{7, 7, 0, 0}, 2, ""},
		{"nvidia", links, []int{7, 8, 0, 0}, 2, taskcatalog.CodeGPUHardwareFault},
		{"amd", links, []int{2, 0, 0, 0}, 0, ""},
		{"amd", links, []int{2, 0, 1, 0}, 0, taskcatalog.CodeGPUHardwareFault}, // a reading clears the counter
		{"amd", links, []int{2, 2, 0, 0}, 0, taskcatalog.CodeGPUHardwareFault}, // as many as before, and new ones
		{"nvidia", total, []int{5, 5, 5, -1}, 0, taskcatalog.CodeGPUHardwareFault},
		{"nvidia", total, []int{-1, 5, 5, 5}, 0, ""},
	} {
		u := &unit{restart: c.restart, readings: figures(c.set, c.looks...)}
		u.device.Vendor, u.out.Verdict = c.vendor, taskcatalog.VerdictClean
		u.before.Health, u.out.After = u.readings[0], &u.readings[len(u.readings)-1]
		judgeHealth(u)
		if name := fmt.Sprintf("%s %v, reset before %d", c.vendor, c.looks, c.restart); u.out.Code != c.code {
			t.Errorf("%s: %s %q (%s)", name, u.out.Verdict, u.out.Code, u.out.Message)
		}
	}
}

func TestAFabricThatSaysNothingAfterItWasReadyIsNotReady(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		was, is string
		ready   bool
	}{{"", "", true}, {"completed", "completed", true}, {"completed", "", false}, {"completed", "in_progress", false}, {"in_progress", "", false}, {"not_supported", "", true}, {"", "completed", true}, {"completed", "not_supported", false}, {"", "not_supported", true}, {"", "unknown_7", false}, {"completed", "unhealthy: degraded_bandwidth_1", false}, {"", "unreadable", false}} {
		if got := ready(c.was, c.is); got != c.ready {
			t.Errorf("%q after %q: %t", c.is, c.was, got)
		}
	}
}

func TestSettingsAreJudgedByWhatIsReadAtTheEnd(t *testing.T) {
	t.Parallel()
	on := true
	want := taskcatalog.GPUSettings{Partition: "mig_disabled", ECC: &on}
	for _, c := range []struct {
		is      gpu.State
		verdict taskcatalog.Verdict
	}{
		{gpu.State{Settings: want}, taskcatalog.VerdictClean},
		{gpu.State{Settings: taskcatalog.GPUSettings{Partition: "mig_enabled", ECC: &on}}, taskcatalog.VerdictNotClean},
		{gpu.State{Settings: want, Pending: taskcatalog.GPUSettings{Partition: "mig_enabled"}}, taskcatalog.VerdictNotClean},
		{gpu.State{Settings: taskcatalog.GPUSettings{Partition: "mig_disabled"}}, taskcatalog.VerdictInconclusive},
	} {
		u := &unit{want: &taskcatalog.BaselineGPU{Settings: want}}
		u.out.Verdict = taskcatalog.VerdictClean
		if judgeSettings(u, c.is); u.out.Verdict != c.verdict {
			t.Errorf("%+v is %s: %s", c.is, u.out.Verdict, u.out.Message)
		}
	}
	if got := Unreadable(want, taskcatalog.GPUSettings{}); !slices.Equal(got, []string{"ecc", "partition"}) {
		t.Errorf("%q", got)
	}
}
