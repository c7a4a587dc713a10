package gpu_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

func TestSurveySaysWhatThereIs(t *testing.T) {
	l := newLab(t)
	s := l.Survey(t.Context(), "nvidia")
	if len(s.GPUs) != devices || len(s.Libraries) != 2 {
		t.Fatalf("%+v", s)
	}
	for i, g := range s.GPUs {
		if g.Index != i || i > 0 && g.PCIAddress <= s.GPUs[i-1].PCIAddress || !strings.HasPrefix(g.UUID, "GPU-") || g.Serial == "" {
			t.Errorf("GPU %d: %+v", i, g)
		}
		if g.Architecture != "hopper" || g.Partition != "mig_disabled" || g.PartitionPending != "" || *g.MemoryBytes != 16*mib || *g.ReservedBytes != 2*mib {
			t.Errorf("GPU %d: %+v", i, g)
		}
	}
	want := []taskcatalog.LibraryFacts{{Name: "libnvidia-ml.so.1", Version: "570.86.15"}, {Name: "libcuda.so.1", Version: "12.8"}}
	if !reflect.DeepEqual(s.Libraries, want) {
		t.Errorf("%+v", s.Libraries)
	}
}

func TestALibraryThatTellsNothingIsAFact(t *testing.T) {
	for fault, problem := range map[string]taskcatalog.Code{
		"driver_missing": gpu.CodeDriverMissing, "library_mismatched": gpu.CodeLibraryMismatched, "no_permission": gpu.CodeNoPermission,
		"crash init": gpu.CodeHelperCrashed, "garbage init": gpu.CodeHelperGarbage,
	} {
		s := newLab(t, "fault "+fault).Survey(t.Context(), "nvidia")
		if len(s.GPUs) != 0 || s.Libraries[0].Problem != problem || s.Libraries[0].Detail == "" {
			t.Errorf("%s: %+v", fault, s)
		}
	}
	l := newLab(t)
	l.Helper.Env = nil // no library can be found
	s := l.Survey(t.Context(), "nvidia")
	for _, lib := range s.Libraries {
		if lib.Problem != gpu.CodeLibraryMissing {
			t.Errorf("%+v", lib)
		}
	}
	if _, err := l.State(t.Context(), gpu.Device{Vendor: "nvidia", UUID: "GPU-0"}); codeOf(err) != gpu.CodeLibraryMissing {
		t.Errorf("the state of a GPU: %v", err)
	}
}

func TestAVendorThatTheAgentDoesNotKnowIsRefused(t *testing.T) {
	s := newLab(t).Survey(t.Context(), "nvidia", "matrox")
	if len(s.GPUs) != devices || s.Libraries[2].Problem != gpu.CodeUnsupported {
		t.Errorf("%+v", s.Libraries)
	}
}

// Implausible values are left out, and texts are escaped, on both sides of the pipe.
func TestAbsurdAnswersAreNoFacts(t *testing.T) {
	l := newLab(t, "fault.2 absurd", "fault.3 struct_version")
	s := l.Survey(t.Context(), "nvidia")
	g := s.GPUs[2]
	if g.MemoryBytes != nil || g.ReservedBytes != nil || taskcatalog.Clean(g.Name, 200) != g.Name || !strings.Contains(g.Name, `\x1b`) {
		t.Errorf("%+v", g)
	}
	// A library that refuses this version of a struct is asked the older way.
	if g := s.GPUs[3]; g.MemoryBytes == nil || *g.MemoryBytes != 16*mib || g.ReservedBytes != nil {
		t.Errorf("%+v", g)
	}
	r, err := l.scrub(gpu.Device{Vendor: "nvidia", UUID: s.GPUs[3].UUID})
	if err != nil || r.Memory.Reserved != nil || r.CoveredBytes != 12*mib || excluded(r.Excluded, gpu.NotFree) == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestHoldersAreListedWithWhatTheyHold(t *testing.T) {
	l := newLab(t, "fault.4 holder 4242")
	d, other := l.device(0), l.device(4)
	pid, end := l.tenant(d, "1048576")
	got, err := l.Holders(t.Context(), d)
	if err != nil || len(got) != 1 || got[0].PID != uint32(pid) || got[0].Kind != "compute" || *got[0].MemoryBytes != mib {
		t.Errorf("%+v, %v", got, err)
	}
	end()
	if got, err := l.Holders(t.Context(), d); err != nil || len(got) != 0 {
		t.Errorf("after it ended: %+v, %v", got, err)
	}
	if got, err := l.Holders(t.Context(), other); err != nil || len(got) != 1 || got[0].PID != 4242 {
		t.Errorf("one that no process list of the machine has: %+v, %v", got, err)
	}
}

func TestAHolderOfAnInstanceIsListedOnce(t *testing.T) {
	l := newLab(t, "fault.0 mig_on")
	g := l.Survey(t.Context(), "nvidia").GPUs[0]
	pid, _ := l.tenant(gpu.Device{UUID: g.Instances[1].UUID}, "65536")
	got, err := l.Holders(t.Context(), gpu.Device{Vendor: "nvidia", UUID: g.UUID})
	if err != nil || len(got) != 1 || got[0].PID != uint32(pid) || got[0].Instance != g.Instances[1].UUID {
		t.Errorf("%+v, %v", got, err)
	}
}

func yes() *bool { b := true; return &b }
func no() *bool  { b := false; return &b }

func TestSettingsArePutBackAndWhatDoesNotTakeIsNamed(t *testing.T) {
	l := newLab(t)
	d := l.device(0)
	usual := l.state(d).Settings
	low := uint64(300_000)
	tenants := gpu.Settings{ComputeMode: "prohibited", Persistence: yes(), PowerLimitMW: &low, ECC: no(), Partition: "mig_enabled"}
	left, err := l.Apply(t.Context(), d, tenants)
	if err != nil {
		t.Fatal(err)
	}
	// A setting that needs a reset is in force after a reset, and is no fault before.
	for _, dev := range left {
		if !dev.NeedsReset || dev.Code != "" || dev.Setting != "ecc" && dev.Setting != "partition" {
			t.Errorf("%+v", dev)
		}
	}
	s := l.state(d)
	if len(left) != 2 || s.Settings.ComputeMode != "prohibited" || *s.Settings.PowerLimitMW != low || s.Pending.Partition != "mig_enabled" || *s.Pending.ECC {
		t.Errorf("%+v: %+v", left, s)
	}
	if out, status := l.smi("--gpu-reset", "-i", d.UUID); status != 255 {
		t.Fatalf("with persistence mode on: %d: %s", status, out)
	}
	if _, err := l.Apply(t.Context(), d, gpu.Settings{Persistence: no()}); err != nil {
		t.Fatal(err)
	}
	if out, status := l.smi("--gpu-reset", "-i", d.UUID); status != 0 {
		t.Fatalf("%d: %s", status, out)
	}
	if s := l.state(d); s.Settings.Partition != "mig_enabled" || *s.Settings.ECC || s.Pending.Partition != "" {
		t.Errorf("after the reset: %+v", s)
	}
	// Back to the usual settings, with a stuck setting.
	l.faults("fault.0 refuses power_limit")
	left, err = l.Apply(t.Context(), d, usual)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(left, func(dev gpu.Deviation) bool { return dev.Setting == "power_limit_mw" })
	if len(left) != 3 || i < 0 || left[i].Have != "300000" || left[i].Want != "700000" || left[i].Code != gpu.CodeUnsupported || left[i].NeedsReset {
		t.Errorf("%+v", left)
	}
}

// A setting with the right present value and a wrong pending value counts as not set.
func TestAPendingChangeIsTakenBack(t *testing.T) {
	l := newLab(t, "fault.0 mig_pending")
	d := l.device(0)
	if s := l.state(d); s.Settings.Partition != "mig_disabled" || s.Pending.Partition != "mig_enabled" {
		t.Fatalf("%+v", s)
	}
	if left, err := l.Apply(t.Context(), d, gpu.Settings{Partition: "mig_disabled"}); err != nil || len(left) != 0 {
		t.Errorf("%+v, %v", left, err)
	}
	if s := l.state(d); s.Pending.Partition != "" {
		t.Errorf("%+v", s)
	}
}

// An instance in use is not destroyed, and the mode stays.
func TestMIGIsNotSwitchedOffUnderATenant(t *testing.T) {
	l := newLab(t, "fault.0 mig_on")
	g := l.Survey(t.Context(), "nvidia").GPUs[0]
	d, off := gpu.Device{Vendor: "nvidia", UUID: g.UUID}, gpu.Settings{Partition: "mig_disabled"}
	_, end := l.tenant(gpu.Device{UUID: g.Instances[0].UUID}, "65536")
	left, err := l.Apply(t.Context(), d, off)
	if err != nil || len(left) != 1 || left[0].Code != gpu.CodeDeviceBusy || left[0].NeedsReset {
		t.Errorf("%+v, %v", left, err)
	}
	if s := l.state(d); s.Settings.Partition != "mig_enabled" || s.Pending.Partition != "" {
		t.Errorf("%+v", s)
	}
	end()
	left, err = l.Apply(t.Context(), d, off)
	if err != nil || len(left) != 1 || !left[0].NeedsReset || left[0].Code != "" {
		t.Errorf("once it is gone: %+v, %v", left, err)
	}
	if now := l.Survey(t.Context(), "nvidia").GPUs[0]; len(now.Instances) != 0 || now.Partition != "mig_enabled" || now.PartitionPending != "mig_disabled" {
		t.Errorf("before the reset: %+v", now)
	}
}

// The library's own counters: on a GPU outside a fabric they are a single source.
func TestATrueResetHasWitnessesAndALieHasNone(t *testing.T) {
	const counters = "counters: ecc_uncorrected energy_mj pcie_replays"
	cases := map[string]struct {
		config  []string
		want    gpu.Settings // set before
		status  int
		present []string
	}{
		"a true one, alone":        {nil, gpu.Settings{}, 0, []string{counters}},
		"a true one, of a fabric":  {[]string{"fabric on"}, gpu.Settings{}, 0, []string{"counters: ecc_uncorrected energy_mj fabric pcie_replays"}},
		"a true one that was owed": {nil, gpu.Settings{Partition: "mig_enabled", ECC: no()}, 0, []string{counters, "owed: ecc partition"}},
		"a lie":                    {[]string{"fault.0 lying_reset"}, gpu.Settings{}, 0, nil},
		"a lie, of a fabric":       {[]string{"fabric on", "fault.0 lying_reset"}, gpu.Settings{ECC: no()}, 0, nil},
		"kept up by the driver":    {nil, gpu.Settings{Persistence: yes()}, 255, nil},
		"in use":                   {[]string{"fault.0 in_use_on_reset"}, gpu.Settings{}, 255, nil},
		"not supported":            {[]string{"fault.0 reset_unsupported"}, gpu.Settings{}, 3, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, "fault.0 ecc_in_verify")
			d := l.device(0)
			if _, err := l.scrub(d); codeOf(err) != gpu.CodeECCUncorrectable {
				t.Fatal(err)
			}
			l.faults(c.config...)
			if c.want != (gpu.Settings{}) {
				if _, err := l.Apply(t.Context(), d, c.want); err != nil {
					t.Fatal(err)
				}
			}
			before := l.state(d)
			if *before.Health.ECCUncorrected != 1 {
				t.Fatalf("%+v", before.Health)
			}
			if out, status := l.smi("--gpu-reset", "-i", d.UUID); status != c.status {
				t.Fatalf("status %d: %s", status, out)
			}
			since := []gpu.State{l.state(d), l.state(d)}
			if got := gpu.ResetWitnesses(before, since...); !slices.Equal(got, c.present) {
				t.Errorf("witnesses %q, want %q", got, c.present)
			}
			if *since[1].Health.ECCTotal != 1 {
				t.Errorf("the errors of the device's life: %d, want 1", *since[1].Health.ECCTotal)
			}
		})
	}
}

func TestNoHandleOfOursStandsInTheWayOfAReset(t *testing.T) {
	l := newLab(t)
	d := l.device(0)
	for _, ask := range []func() error{
		func() error { _, err := l.State(t.Context(), d); return err },
		func() error { _, err := l.Holders(t.Context(), d); return err },
		func() error { _, err := l.scrub(d); return err },
		func() error { _, err := l.probe(d, 100); return err },
	} {
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		if out, status := l.smi("--gpu-reset", "-i", d.UUID); status != 0 {
			t.Fatalf("status %d: %s", status, out)
		}
	}
}

func TestTheFabricIsReadySomeTimeAfterAReset(t *testing.T) {
	l := newLab(t, "fabric on", "fault.0 fabric_slow 2", "fault.1 fabric_slow never", "fault.2 fabric_down")
	ready := func(i int) string { return l.state(l.device(i)).Health.Fabric }
	for i, want := range []string{"completed", "completed", "not_started", "completed"} {
		if got := ready(i); got != want {
			t.Errorf("GPU %d before: %s, want %s", i, got, want)
		}
	}
	if out, status := l.smi("--gpu-reset"); status != 0 {
		t.Fatalf("%d: %s", status, out)
	}
	if got := []string{ready(0), ready(0), ready(0), ready(1), ready(1)}; !slices.Equal(got, []string{"in_progress", "in_progress", "completed", "in_progress", "in_progress"}) {
		t.Errorf("%v", got)
	}
	if _, err := l.probe(l.device(0), 100); err != nil {
		t.Errorf("a ready one: %v", err)
	}
	if _, err := l.probe(l.device(1), 100); codeOf(err) != gpu.CodeFabricNotReady {
		t.Errorf("one that never is: %v", err)
	}
}

func TestNVIDIAResetsAndCleansOnlyByCommand(t *testing.T) {
	l := newLab(t)
	d := l.device(0)
	if err := l.Reset(t.Context(), "nvidia", []string{d.UUID}); codeOf(err) != gpu.CodeResetUnsupported {
		t.Errorf("%v", err)
	}
	if err := l.CleanLocal(t.Context(), d); codeOf(err) != gpu.CodeUnsupported {
		t.Errorf("%v", err)
	}
}

func TestALostGPUIsLostToEveryQuestion(t *testing.T) {
	l := newLab(t, "fault.0 lost_after 1M")
	d := l.device(0)
	if _, err := l.scrub(d); codeOf(err) != gpu.CodeDeviceLost {
		t.Fatalf("%v", err)
	}
	if _, err := l.State(t.Context(), d); codeOf(err) != gpu.CodeDeviceLost {
		t.Errorf("%v", err)
	}
	s := l.Survey(t.Context(), "nvidia")
	if len(s.GPUs) != devices-1 || s.Libraries[0].Problem != gpu.CodeDeviceLost {
		t.Errorf("%d GPUs, %+v", len(s.GPUs), s.Libraries)
	}
}

// A newer driver answers with unknown values. None of them may count as a good value.
func TestAValueThatIsNotKnownIsNoneThatIsGood(t *testing.T) {
	for config, c := range map[string]struct {
		have func(gpu.State) string
		want string
	}{
		"recovery 0":             {recovery, "none"},
		"recovery 1":             {recovery, "gpu_reset"},
		"recovery 5":             {recovery, "recover_imex_domain"},
		"recovery 6":             {recovery, "unknown_6"},
		"recovery 4000000000":    {recovery, "unknown_4000000000"},
		"fabric_state 3":         {fabric, "completed"},
		"fabric_state 4":         {fabric, "unknown_4"},
		"fabric_health 0xaa":     {fabric, "completed"},
		"fabric_health 0":        {fabric, "completed"}, // the GPU reports no condition
		"fabric_health 0xa9":     {fabric, "unhealthy: degraded_bandwidth_1"},
		"fabric_health 0x95":     {fabric, "unhealthy: degraded_bandwidth_1, route_recovery_1, route_unhealthy_1"},
		"fabric_health 0xab":     {fabric, "unhealthy: degraded_bandwidth_3"},
		"fabric_health 0x1aa":    {fabric, "completed"}, // the configuration is correct
		"fabric_health 0x5aa":    {fabric, "unhealthy: incorrect_configuration_5"},
		"fabric_health 0x11aa":   {fabric, "completed"}, // in a partition
		"fabric_health 0x21aa":   {fabric, "unhealthy: partition_unassigned_2"},
		"fabric_health 0x40aa":   {fabric, "unhealthy: unknown_0x4000"},
		"answers_compute_mode 9": {func(s gpu.State) string { return s.Settings.ComputeMode }, "unknown_9"},
		"answers_mig 2":          {func(s gpu.State) string { return s.Settings.Partition }, "unknown_2"},
		"answers_persistence 2":  {func(s gpu.State) string { return fmt.Sprint(s.Settings.Persistence) }, "<nil>"},
		"answers_ecc 2":          {func(s gpu.State) string { return fmt.Sprint(s.Settings.ECC) }, "<nil>"},
	} {
		l := newLab(t, "fabric on", config)
		if got := c.have(l.state(l.device(0))); got != c.want {
			t.Errorf("%s: %q, want %q", config, got, c.want)
		}
	}
}

func recovery(s gpu.State) string { return s.Health.Recovery }
func fabric(s gpu.State) string   { return s.Health.Fabric }
