package amd_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

func TestStateIsWhatTheLibrarySays(t *testing.T) {
	for _, version := range []string{"24.7.1", "26.2.1"} {
		l := newLab(t, allLibraries, "amdsmi "+version, "hive.1 0x5aa5", "bad_pages.1 3")
		uuids := l.uuids()
		st := l.must(request{Do: "state", UUID: uuids[1]}).State
		want := gpu.Settings{
			Partition: "SPX", MemoryPartition: "NPS1", Clocks: "default",
			PowerLimitMW: new(uint64(750_000)), ECC: new(true), Isolation: new(false),
		}
		if !reflect.DeepEqual(st.Settings, want) {
			t.Errorf("%s: settings %+v, want %+v", version, st.Settings, want)
		}
		health := gpu.Health{
			ECCCorrected: new(uint64(0)), ECCUncorrected: new(uint64(0)), BadPages: new(uint64(3)),
			RemapPending: new(true), RemapFailed: new(false), LinkErrors: new(uint64(0)),
		}
		if !reflect.DeepEqual(st.Health, health) {
			t.Errorf("%s: health %+v", version, st.Health)
		}
		if st.Domain != "xgmi-0000000000005aa5" || len(st.Counters) != 3 || st.Counters["energy_mj"] == 0 {
			t.Errorf("%s: domain %q, counters %v", version, st.Domain, st.Counters)
		}
		// A GPU outside of a hive has no link to count errors of.
		if st := l.must(request{Do: "state", UUID: uuids[0]}).State; st.Domain != "" || st.Health.LinkErrors != nil || *st.Health.BadPages != 0 {
			t.Errorf("%s: alone: %+v", version, st)
		}
	}
}

// A page with an unknown status does not count as retired.
func TestAPageOfAnUnknownStatusIsNotRetired(t *testing.T) {
	for status, want := range map[string][2]bool{"0": {false, false}, "1": {true, false}, "2": {false, true}, "3": {true, false}, "4294967295": {true, false}} {
		l := newLab(t, allLibraries, "bad_pages.1 1", "page_status "+status)
		h := l.must(request{Do: "state", UUID: l.uuids()[1]}).State.Health
		if h.RemapPending == nil || h.RemapFailed == nil || [2]bool{*h.RemapPending, *h.RemapFailed} != want {
			t.Errorf("status %s: %+v", status, h)
		}
	}
}

func TestAnECCErrorIsCounted(t *testing.T) {
	l := newLab(t, allLibraries, "fault.0 ecc_in_verify")
	uuids := l.uuids()
	l.ask(request{Do: "scrub", UUID: uuids[0]})
	if st := l.must(request{Do: "state", UUID: uuids[0]}).State; *st.Health.ECCUncorrected == 0 {
		t.Error("the error was not counted")
	}
}

func TestWithoutRASNoErrorIsCounted(t *testing.T) {
	l := newLab(t, allLibraries, "ras off")
	if st := l.must(request{Do: "state", UUID: l.uuids()[0]}).State; st.Health.ECCUncorrected != nil || *st.Settings.ECC {
		t.Errorf("%+v", st.Health)
	}
}

func TestHoldersAreTheProcessesOfTheGPU(t *testing.T) {
	for _, version := range []string{"24.7.1", "26.2.1"} {
		l := newLab(t, allLibraries, "amdsmi "+version)
		uuids := l.uuids()
		pid, end := l.hold(uuids[0])
		got := l.must(request{Do: "holders", UUID: uuids[0]}).Holders
		if len(got) != 1 || got[0].PID != uint32(pid) || got[0].Kind != "compute" || got[0].MemoryBytes == nil || *got[0].MemoryBytes < 14*mib {
			t.Errorf("%s: the holders are %+v, want %d", version, got, pid)
		}
		if got := l.must(request{Do: "holders", UUID: uuids[1]}).Holders; got != nil {
			t.Errorf("%s: the other GPU has %+v", version, got)
		}
		end()
		if got := l.must(request{Do: "holders", UUID: uuids[0]}).Holders; got != nil {
			t.Errorf("%s: a process that ended holds on: %+v", version, got)
		}
	}
}

// A process of another PID namespace has a number of no process here.
func TestAHolderNobodySeesIsListed(t *testing.T) {
	l := newLab(t, allLibraries, "fault.1 holder 4194000")
	if got := l.must(request{Do: "holders", UUID: l.uuids()[1]}).Holders; len(got) != 1 || got[0].PID != 4194000 {
		t.Errorf("the holders are %+v", got)
	}
}

func TestHoldersOfAPartitionNameIt(t *testing.T) {
	l := newLab(t, allLibraries, "instances 2")
	g := l.must(request{Do: "survey"}).GPUs[0]
	pid, _ := l.hold(g.Instances[1].UUID)
	got := l.must(request{Do: "holders", UUID: g.UUID}).Holders
	if len(got) != 1 || got[0].PID != uint32(pid) || got[0].Instance != g.Instances[1].UUID {
		t.Errorf("the holders are %+v", got)
	}
	if got := l.must(request{Do: "holders", UUID: g.Instances[0].UUID}).Holders; got != nil {
		t.Errorf("the other partition has %+v", got)
	}
}

func TestApplyPutsBackWhatATenantSet(t *testing.T) {
	tenants := gpu.Settings{MemoryPartition: "NPS4", PowerLimitMW: new(uint64(300_000)), Isolation: new(true)}
	wanted := gpu.Settings{Partition: "SPX", MemoryPartition: "NPS1", PowerLimitMW: new(uint64(750_000)), Isolation: new(false), Clocks: "default"}
	for _, version := range []string{"24.7.1", "26.2.1"} {
		l := newLab(t, allLibraries, "amdsmi "+version)
		uuid := l.uuids()[0]
		for _, want := range []gpu.Settings{tenants, wanted, wanted} {
			if off := l.must(request{Do: "apply", UUID: uuid, Want: want}).Deviations; off != nil {
				t.Fatalf("%s: %+v", version, off)
			}
			got := l.must(request{Do: "state", UUID: uuid}).State.Settings
			if got.MemoryPartition != want.MemoryPartition || *got.PowerLimitMW != *want.PowerLimitMW || *got.Isolation != *want.Isolation {
				t.Errorf("%s: set to %+v, want %+v", version, got, want)
			}
		}
	}
}

func TestAPartitionedGPUIsMadeWholeAgain(t *testing.T) {
	l := newLab(t, allLibraries, "instances 8")
	uuid := l.uuids()[0]
	if off := l.must(request{Do: "apply", UUID: uuid, Want: gpu.Settings{Partition: "SPX", Isolation: new(true)}}).Deviations; off != nil {
		t.Fatalf("%+v", off)
	}
	if g := l.must(request{Do: "survey"}).GPUs[0]; g.Partition != "SPX" || g.Instances != nil || *g.MemoryBytes != 16*mib {
		t.Errorf("the GPU is %+v", g)
	}
	if s := l.must(request{Do: "scrub", UUID: uuid}).Scrub; s.Bytes != 14*mib {
		t.Errorf("the GPU has %+v", s)
	}
}

func TestWhatWillNotGoBackIsNamed(t *testing.T) {
	for _, c := range []struct {
		name, config string
		want         gpu.Settings
		deviation    gpu.Deviation
	}{
		{
			"refused", "fault partition_refused",
			gpu.Settings{Partition: "SPX"},
			gpu.Deviation{Setting: "partition", Want: "SPX", Have: "QPX", Code: gpu.CodeDeviceBusy},
		},
		{
			"ignored", "fault partition_ignored",
			gpu.Settings{Partition: "SPX"},
			gpu.Deviation{Setting: "partition", Want: "SPX", Have: "QPX", Code: "setting_ignored"},
		},
		{
			"after a reload", "fault partition_ignored",
			gpu.Settings{MemoryPartition: "NPS4"},
			gpu.Deviation{Setting: "memory_partition", Want: "NPS4", Have: "NPS1", Code: "driver_reload_required"},
		},
		{
			"numbers not known", "amdsmi 25.3.0",
			gpu.Settings{MemoryPartition: "NPS4"},
			gpu.Deviation{Setting: "memory_partition", Want: "NPS4", Have: "NPS1", Code: gpu.CodeUnsupported},
		},
		{
			"no such mode", "",
			gpu.Settings{Partition: "mig_disabled"},
			gpu.Deviation{Setting: "partition", Want: "mig_disabled", Have: "QPX", Code: gpu.CodeUnsupported},
		},
		{
			"too much power", "",
			gpu.Settings{PowerLimitMW: new(uint64(900_000))},
			gpu.Deviation{Setting: "power_limit_mw", Want: "900000", Have: "750000", Code: gpu.CodeDriverFailed},
		},
		{
			"nothing sets ECC", "",
			gpu.Settings{ECC: new(false)},
			gpu.Deviation{Setting: "ecc", Want: "false", Have: "true", Code: gpu.CodeUnsupported},
		},
	} {
		l := newLab(t, allLibraries, "instances 4", c.config)
		off := l.must(request{Do: "apply", UUID: l.uuids()[0], Want: c.want}).Deviations
		if len(off) != 1 || off[0].Message == "" {
			t.Errorf("%s: %+v", c.name, off)
			continue
		}
		if off[0].Message = ""; off[0] != c.deviation {
			t.Errorf("%s: %+v, want %+v", c.name, off[0], c.deviation)
		}
	}
}

// A GPU in use keeps its partition mode.
func TestAPartitionIsNotChangedUnderATenant(t *testing.T) {
	l := newLab(t, allLibraries, "instances 2")
	g := l.must(request{Do: "survey"}).GPUs[0]
	l.hold(g.Instances[0].UUID)
	off := l.must(request{Do: "apply", UUID: g.UUID, Want: gpu.Settings{Partition: "SPX"}}).Deviations
	if len(off) != 1 || off[0].Code != gpu.CodeDeviceBusy {
		t.Errorf("%+v", off)
	}
}

// counters reads the firmware's counters, which fall with a reset.
func (l *lab) counters(uuid string) gpu.State {
	l.t.Helper()
	return l.must(request{Do: "state", UUID: uuid}).State
}

// wasReset expects all counters as witnesses, or none: they belong to the same firmware.
func (l *lab) wasReset(uuid string, before gpu.State) bool {
	l.t.Helper()
	witnesses := gpu.ResetWitnesses(before, l.counters(uuid))
	if len(witnesses) > 0 && !slices.Equal(witnesses, []string{"counters: energy_mj firmware_samples firmware_time_10ns"}) {
		l.t.Errorf("only %v say that %s was reset", witnesses, uuid)
	}
	return len(witnesses) > 0
}

func TestAResetShowsInItsWitness(t *testing.T) {
	for _, c := range []struct {
		name, config string
		code         taskcatalog.Code
		reset        bool
		neighbour    bool
	}{
		{name: "a reset", reset: true},
		{name: "a reset that lies", config: "fault lying_reset"},
		{name: "busy", config: "fault in_use_on_reset", code: gpu.CodeDeviceBusy},
		{name: "amdgpu does not come back", config: "fault reset_failed", code: "driver_restart_failed"},
		{name: "kernel lockdown", config: "fault reset_denied", code: gpu.CodeNoPermission},
		{name: "one that disturbs its neighbour", config: "fault reset_disturbs 1", reset: true, neighbour: true},
	} {
		l := newLab(t, allLibraries, c.config, "scrub_on_free off")
		uuids := l.uuids()
		for _, uuid := range uuids {
			l.must(request{Do: "plant", UUID: uuid})
		}
		before := []gpu.State{l.counters(uuids[0]), l.counters(uuids[1])}
		if a := l.ask(request{Do: "reset", UUIDs: uuids[:1]}); a.Code != c.code {
			t.Errorf("%s: %q %q, want %q", c.name, a.Code, a.Message, c.code)
		}
		if got := l.wasReset(uuids[0], before[0]); got != c.reset {
			t.Errorf("%s: the witness says reset=%v", c.name, got)
		}
		if got := l.wasReset(uuids[1], before[1]); got != c.neighbour {
			t.Errorf("%s: the neighbour's witness says reset=%v", c.name, got)
		}
		if s := l.must(request{Do: "scrub", UUID: uuids[0]}).Scrub; (s.Residue == 0) != c.reset {
			t.Errorf("%s: %d words are left", c.name, s.Residue)
		}
	}
}

func TestAHiveIsResetAsOneAndAskedOnce(t *testing.T) {
	l := newLab(t, allLibraries, "devices 3", "hive 7", "hive.2 0")
	uuids := l.uuids()
	if a := l.ask(request{Do: "reset", UUIDs: uuids[:1]}); a.Code != "hive_incomplete" {
		t.Errorf("half of a hive: %q %q", a.Code, a.Message)
	}
	before := []gpu.State{l.counters(uuids[0]), l.counters(uuids[1]), l.counters(uuids[2])}
	l.must(request{Do: "reset", UUIDs: []string{uuids[1], uuids[0]}})
	for i, want := range []bool{true, true, false} {
		if got := l.wasReset(uuids[i], before[i]); got != want {
			t.Errorf("GPU %d: reset=%v", i, got)
		}
	}
	// A process on a GPU of a hive blocks the reset of the whole hive.
	l.hold(uuids[1])
	if a := l.ask(request{Do: "reset", UUIDs: uuids[:2]}); a.Code != gpu.CodeDeviceBusy {
		t.Errorf("a hive that is held: %q %q", a.Code, a.Message)
	}
	l.must(request{Do: "reset", UUIDs: uuids[2:]})
}

func TestTheCleanerShaderIsOptional(t *testing.T) {
	l := newLab(t, allLibraries, "fault.1 clean_unsupported", "instances 2")
	uuids := l.uuids()
	l.must(request{Do: "clean", UUID: uuids[0]})
	l.must(request{Do: "clean", UUID: uuids[0] + "/1"})
	if a := l.ask(request{Do: "clean", UUID: uuids[1]}); a.Code != gpu.CodeUnsupported {
		t.Errorf("%q %q", a.Code, a.Message)
	}
}
