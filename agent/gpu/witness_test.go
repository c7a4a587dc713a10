package gpu_test

import (
	"slices"
	"testing"

	"github.com/hostler/hostler/agent/gpu"
)

func stateOf(change func(*gpu.State)) gpu.State {
	s := gpu.State{Counters: map[string]uint64{"energy_mj": 100, "ecc_uncorrected": 0}}
	s.Health.Fabric, s.Health.Recovery, s.Settings.Partition = "completed", "none", "mig_disabled"
	change(&s)
	return s
}

// Values that fall together when the driver initialises a GPU are a single witness, however many.
func TestWitnessesAreCountedBySource(t *testing.T) {
	same := func(*gpu.State) {}
	fell := func(s *gpu.State) { s.Counters["energy_mj"] = 1 }
	kept := func(s *gpu.State) { s.Settings.Persistence = yes() }
	joining := func(s *gpu.State) { fell(s); s.Health.Fabric = "in_progress" }
	cases := map[string]struct {
		before func(*gpu.State)
		since  []func(*gpu.State)
		want   []string
	}{
		"nothing read":                    {same, nil, nil},
		"nothing changed":                 {same, []func(*gpu.State){same}, nil},
		"a healthy GPU of no fabric":      {kept, []func(*gpu.State){fell}, []string{"counters: energy_mj"}},
		"all counters":                    {func(s *gpu.State) { s.Counters["ecc_uncorrected"] = 3 }, []func(*gpu.State){fell}, []string{"counters: ecc_uncorrected energy_mj"}},
		"one that fell and grew again":    {same, []func(*gpu.State){fell, func(s *gpu.State) { s.Counters["energy_mj"] = 200 }}, []string{"counters: energy_mj"}},
		"one that is not told any more":   {same, []func(*gpu.State){func(s *gpu.State) { delete(s.Counters, "energy_mj") }}, nil},
		"a fabric":                        {kept, []func(*gpu.State){joining, fell}, []string{"counters: energy_mj", "fabric: joined again"}},
		"a fabric, the driver not kept":   {same, []func(*gpu.State){joining, fell}, []string{"counters: energy_mj fabric"}},
		"a fabric that is not back":       {kept, []func(*gpu.State){joining}, []string{"counters: energy_mj"}},
		"a fabric that was not there":     {func(s *gpu.State) { kept(s); s.Health.Fabric = "in_progress" }, []func(*gpu.State){joining, same}, []string{"counters: energy_mj"}},
		"a partition mode that was owed":  {func(s *gpu.State) { s.Pending.Partition = "mig_enabled" }, []func(*gpu.State){func(s *gpu.State) { s.Settings.Partition = "mig_enabled" }}, []string{"owed: partition"}},
		"one that is owed still":          {func(s *gpu.State) { s.Pending.Partition = "mig_enabled" }, []func(*gpu.State){func(s *gpu.State) { s.Pending.Partition = "mig_enabled" }}, nil},
		"one that was taken back":         {func(s *gpu.State) { s.Pending.Partition = "mig_enabled" }, []func(*gpu.State){same}, nil},
		"ECC that was owed":               {func(s *gpu.State) { s.Settings.ECC, s.Pending.ECC = no(), yes() }, []func(*gpu.State){func(s *gpu.State) { s.Settings.ECC = yes() }}, []string{"owed: ecc"}},
		"rows that waited":                {func(s *gpu.State) { s.Health.RemapPending = yes() }, []func(*gpu.State){func(s *gpu.State) { s.Health.RemapPending = no() }}, []string{"owed: row_remap"}},
		"rows that nobody tells any more": {func(s *gpu.State) { s.Health.RemapPending = yes() }, []func(*gpu.State){same}, nil},
		"pages that a driver retired": {
			func(s *gpu.State) { s.Health.RemapPending, s.Health.BadPages = yes(), new(uint64) },
			[]func(*gpu.State){func(s *gpu.State) { s.Health.RemapPending = no() }},
			nil,
		},
		"a reset that was advised": {func(s *gpu.State) { s.Health.Recovery = "gpu_reset" }, []func(*gpu.State){same}, []string{"owed: recovery_action"}},
		"another advice":           {func(s *gpu.State) { s.Health.Recovery = "node_reboot" }, []func(*gpu.State){same}, nil},
	}
	for name, c := range cases {
		var since []gpu.State
		for _, change := range c.since {
			since = append(since, stateOf(change))
		}
		if got := gpu.ResetWitnesses(stateOf(c.before), since...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestTheKernelTellsOfAResetOfThisGPU(t *testing.T) {
	const address = "0000:63:00.0"
	for line, want := range map[string]bool{
		"amdgpu 0000:63:00.0: amdgpu: GPU reset(2) succeeded!":  true,
		"amdgpu 0000:63:00.0: GPU reset(12) succeeded!":         true,
		"nvidia 0000:63:00.0: reset done":                       true,
		"amdgpu 0000:64:00.0: amdgpu: GPU reset(2) succeeded!":  false,
		"amdgpu 10000:63:00.0: amdgpu: GPU reset(2) succeeded!": false,
		"amdgpu 0000:63:00.0: amdgpu: GPU reset(2) failed":      false,
		"amdgpu 0000:63:00.0: amdgpu: GPU reset begin!":         false,
		"nvidia 0000:63:00.0: reset done by nobody":             false,
		"NVRM: Xid (PCI:0000:63:00): 154, GPU recovery action":  false,
		"amdgpu 0000x63x00x0: amdgpu: GPU reset(2) succeeded!":  false,
		"nvidia 0000:63:00.0: resetting":                        false,
	} {
		if got := gpu.KernelReset(address, []string{"first", line}); (got != "") != want {
			t.Errorf("%q: %q", line, got)
		}
	}
}
