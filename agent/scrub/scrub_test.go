package scrub

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/gpu"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

func TestWhatATenantLeftIsFoundOverwrittenAndLookedAtAgain(t *testing.T) {
	t.Parallel()
	for _, vendor := range []string{"nvidia", "amd"} {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, vendor, "devices 3")
			l.plant(1, 5<<20)
			l.plant(2, 20<<20)
			var said []string
			l.Progress = func(step string, index, total, percent int, message string) {
				said = append(said, step)
				if index < 1 || index > total || percent < 0 || percent > 100 {
					t.Errorf("%s: %d of %d, %d %%", step, index, total, percent)
				}
			}
			res := l.good()
			if res.Verdict != taskcatalog.VerdictClean || res.Assurance.Overwrite != taskcatalog.OverwriteVerified || len(res.GPUs) != 3 {
				t.Fatalf("%s, %+v, %d GPUs: %+v", res.Verdict, res.Assurance, len(res.GPUs), res.GPUs)
			}
			for i := range 3 {
				g := l.of(res, i)
				if l.left(i) != 0 {
					t.Errorf("GPU %d still has the token", i)
				}
				if had := *g.ResidueWords > 0; had != (i >= 1) {
					t.Errorf("GPU %d: %d words of residue", i, *g.ResidueWords)
				}
				if (g.LocalCleared != nil) != (vendor == "amd") {
					t.Errorf("GPU %d: its registers are cleared: %v", i, g.LocalCleared)
				}
				if *g.CoveragePercent < 80 || *g.ProbedNonZeroWords != 0 || *g.CoveredBytes == 0 || *g.ProbedBytes == 0 || g.Serial == "" && vendor == "nvidia" {
					t.Errorf("GPU %d: %+v", i, g)
				}
			}
			for _, step := range plan[1:] {
				if !slices.Contains(said, step) {
					t.Errorf("nothing was said of %s", step)
				}
				if !slices.ContainsFunc(res.Steps, func(r taskcatalog.StepRecord) bool { return r.StepKind == step && r.HardwareMatch == "here" }) {
					t.Errorf("there is no record of %s: %+v", step, res.Steps)
				}
			}
		})
	}
}

func TestOneBadGPUDoesNotMakeTheOthersBad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		vendor, fault string
		verdict       taskcatalog.Verdict
		code          taskcatalog.Code
	}{
		"old data in a chunk":      {"nvidia", "fault.1 keeps_chunk 8388608", taskcatalog.VerdictNotClean, taskcatalog.CodeGPUResidue},
		"old data in AMD's memory": {"amd", "fault.1 keeps_chunk 8388608", taskcatalog.VerdictNotClean, taskcatalog.CodeGPUResidue},
		"an ECC error":             {"nvidia", "fault.1 ecc_in_verify", taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHardwareFault},
		"lost in the middle":       {"nvidia", "fault.1 lost_after 8M", taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHardwareFault},
		"AMD's lost in the middle": {"amd", "fault.1 lost_after 8M", taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHardwareFault},
		"half of the memory":       {"nvidia", "fault.1 oom_early 12M", taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUScrubIncomplete},
		"a crash of the library":   {"nvidia", "fault.1 crash fill", taskcatalog.VerdictInconclusive, gpu.CodeHelperCrashed},
		"garbage":                  {"nvidia", "fault.1 garbage verify", taskcatalog.VerdictInconclusive, gpu.CodeHelperGarbage},
		"a fault of a kernel":      {"nvidia", "fault.1 kernel_fault verify", taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHardwareFault},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, c.vendor)
			l.faults(c.fault)
			l.plant(1, 8<<20)
			res, report, err := l.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			g := l.want(res, 1, c.verdict, c.code)
			if res.Verdict != c.verdict || len(report.Findings) != 1 || !strings.Contains(report.Findings[0].Subject, g.UUID) {
				t.Errorf("the node is %s with %+v", res.Verdict, report.Findings)
			}
			if c.code == taskcatalog.CodeGPUHardwareFault && g.ProbedBytes != nil {
				t.Error("a broken GPU was tried again")
			}
		})
	}
}

func TestAHangEndsAndIsNoVerdict(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	l.faults("fault.1 hang fill")
	l.Helper.Silence = 15 * time.Second // the other tests never need it, however busy the machine is
	if g := l.want(l.good(), 1, taskcatalog.VerdictInconclusive, gpu.CodeHelperHung); g.After != nil {
		t.Error("a GPU that hung was asked again")
	}
}

func TestAGPUThatIsMissingOrNewMakesNoCleanNode(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	lost := l.Params.Expected[1]
	l.Params.Expected = l.Params.Expected[:1]
	res := l.good()
	i := slices.IndexFunc(res.GPUs, func(g taskcatalog.GPUScrubbed) bool { return g.UUID == lost.UUID })
	if g := res.GPUs[i]; res.Verdict != taskcatalog.VerdictNotClean || g.Code != taskcatalog.CodeGPUUnexpected || *g.ProbedNonZeroWords != 0 {
		t.Errorf("one more than expected: %s, %+v", res.Verdict, g)
	}

	l = newLab(t, "nvidia")
	l.Params.Expected = append(l.Params.Expected, taskcatalog.BaselineGPU{Vendor: "nvidia", UUID: "GPU-gone", Serial: "S-9"})
	res = l.good()
	if g := l.want(res, gpuCount, taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUMissing); res.Verdict != taskcatalog.VerdictInconclusive || g.Serial != "S-9" || g.CoveredBytes != nil {
		t.Errorf("one less than expected: %s, %+v", res.Verdict, g)
	}
}

func TestWithoutAProfileForItNothingIsDone(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	l.plant(0, 5<<20)
	l.Profiles = profiles.Minimal()
	res, _, err := l.run(t.Context())
	if taskcatalog.CodeOf(err, "") != profiles.CodeProfileMissing || res.Verdict != taskcatalog.VerdictInconclusive || l.left(0) != 1 {
		t.Errorf("%v, %s, %d tokens left", err, res.Verdict, l.left(0))
	}
	if len(res.Steps) != 1 || res.Steps[0].ErrorCode != profiles.CodeProfileMissing {
		t.Errorf("%+v", res.Steps)
	}
}

func TestACancelStopsInTheMiddleAndPutsBack(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	l.faults("fault hang fill")
	l.systemd.active["nvidia-persistenced.service"] = true
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	l.Progress = func(step string, _, _, _ int, _ string) {
		if step == profiles.StepOverwrite {
			cancel(errTest)
		}
	}
	res, _, err := l.run(ctx)
	if !errors.Is(err, errTest) || res.Verdict != taskcatalog.VerdictInconclusive {
		t.Errorf("%v, %s", err, res.Verdict)
	}
	if !l.systemd.active["nvidia-persistenced.service"] {
		t.Errorf("what was stopped was not put back: %v", l.systemd.asked)
	}
}

func TestDaemonsAreStoppedForTheTimeOfTheScrubAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	for _, name := range []string{"nvidia-persistenced.service", "nvidia-imex.service", "site-exporter.service", "nvidia-fabricmanager.service"} {
		l.systemd.active[name] = true
	}
	l.Params.Policy.StopServices = []string{"site-exporter.service"}
	res := l.good()
	want := []string{
		"stop nvidia-persistenced.service", "stop nvidia-imex.service", "stop site-exporter.service",
		"start nvidia-persistenced.service", "start nvidia-imex.service", "start site-exporter.service",
	}
	if !slices.Equal(l.systemd.asked, want) || len(res.Stopped) != 3 || !res.Stopped[0].PutBack {
		t.Errorf("systemd was asked %q; %+v", l.systemd.asked, res.Stopped)
	}
}

// Units left stopped by a crash are in the ledger, and the next scrub or agent starts them.
func TestWhatCannotBePutBackIsTriedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	l.systemd.active["dcgm.service"] = true
	l.systemd.fail = errTest
	res, report, err := l.run(t.Context())
	if err != nil || res.Verdict != taskcatalog.VerdictInconclusive || len(report.Findings) != 1 || report.Findings[0].Subject != "dcgm.service" {
		t.Errorf("%v, %s, %+v", err, res.Verdict, report.Findings)
	}
	if len(res.Stopped) != 1 || res.Stopped[0].PutBack || res.Stopped[0].Message == "" || len(l.ledger.names) != 1 {
		t.Fatalf("%+v, ledger %v", res.Stopped, l.ledger.names)
	}
	l.systemd.fail = nil
	if again := PutBack(t.Context(), l.ledger, l.systemd, l.Helper); len(again) != 1 || !again[0].PutBack || len(l.ledger.names) != 0 {
		t.Errorf("%+v, ledger %v", again, l.ledger.names)
	}
	if again := PutBack(t.Context(), l.ledger, l.systemd, l.Helper); len(again) != 0 {
		t.Errorf("a third time: %+v", again)
	}
}

func TestASettingThatWillNotGoBackIsAFindingByName(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	exclusive := "exclusive_process"
	if _, err := l.Helper.Apply(t.Context(), gpu.Device{Vendor: "nvidia", UUID: l.uuid(1)}, taskcatalog.GPUSettings{ComputeMode: exclusive}); err != nil {
		t.Fatal(err)
	}
	l.want(l.good(), 1, taskcatalog.VerdictClean, "")
	state, err := l.Helper.State(t.Context(), gpu.Device{Vendor: "nvidia", UUID: l.uuid(1)})
	if err != nil || state.Settings.ComputeMode == exclusive {
		t.Errorf("the tenant's compute mode stayed: %+v, %v", state.Settings, err)
	}

	l = newLab(t, "nvidia")
	l.Params.Expected[1].Settings.ComputeMode = "prohibited"
	l.faults("fault.1 refuses compute_mode")
	g := l.want(l.good(), 1, taskcatalog.VerdictNotClean, taskcatalog.CodeGPUSettingUnrestored)
	if !strings.Contains(g.Message, "compute_mode") {
		t.Errorf("%s", g.Message)
	}
}

func TestTheKernelsLogTellsAgainstTheGPUThatItNames(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	address := l.Params.Expected[1].PCIAddress
	slot := strings.TrimSuffix(address, ".0")
	l.KernelLog = func() ([]string, error) {
		return []string{"NVRM: Xid (PCI:" + slot + "): 79, pid=1, GPU has fallen off the bus.", "NVRM: Xid (PCI:ffff:ff:00): 48", "NVRM: Xid (PCI:" + slot + "): 31, a tenant's fault"}, nil
	}
	if g := l.want(l.good(), 1, taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHardwareFault); !strings.Contains(g.Message, "Xid 79") {
		t.Errorf("%s", g.Message)
	}
	l = newLab(t, "nvidia")
	l.KernelLog = func() ([]string, error) { return nil, errTest }
	if res := l.good(); res.Verdict != taskcatalog.VerdictInconclusive {
		t.Errorf("a log that cannot be read: %s", res.Verdict)
	}
	l = newLab(t, "nvidia")
	l.KernelLog = nil
	if res := l.good(); res.Verdict != taskcatalog.VerdictInconclusive {
		t.Errorf("no log at all: %s", res.Verdict)
	}
}

func TestWhatALibrarySaysInNoKnownWordIsNeverClean(t *testing.T) {
	t.Parallel()
	for config, c := range map[string]struct {
		verdict taskcatalog.Verdict
		code    taskcatalog.Code
	}{
		"recovery.1 6":         {taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHardwareFault},
		"fabric_state.1 9":     {taskcatalog.VerdictInconclusive, gpu.CodeFabricNotReady},
		"fabric_health.1 0xa9": {taskcatalog.VerdictInconclusive, gpu.CodeFabricNotReady},
		"answers_ecc.1 7":      {taskcatalog.VerdictNotClean, taskcatalog.CodeGPUSettingUnrestored}, // does not go back to the baseline
	} {
		l := newLab(t, "nvidia", "fabric on")
		l.faults("fabric on", config)
		l.want(l.good(), 1, c.verdict, c.code)
	}
}

// A probe that gets less memory than was overwritten has not seen all memory of the next tenant.
func TestAProbeCoversWhatWasOverwritten(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	l.Params.Policy.MinCoveragePercent = 20
	l.Progress = func(step string, _, _, percent int, message string) {
		if step == profiles.StepProbe && message == "" {
			l.faults("fault.1 oom_early 12M")
		}
	}
	g := l.want(l.good(), 1, taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUScrubIncomplete)
	if *g.ProbedBytes >= *g.CoveredBytes {
		t.Errorf("%d probed of %d", *g.ProbedBytes, *g.CoveredBytes)
	}
}

// An instance is the unit of a scrub, and memory in no instance is reported.
func TestInstancesAreScrubbedEachByItself(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia", "fault mig_on", "instances 2", "memory 64M")
	for i := range l.Params.Expected {
		l.Params.Expected[i].Settings = taskcatalog.GPUSettings{}
	}
	res := l.good()
	if len(res.GPUs) != 2*gpuCount {
		t.Fatalf("%d units of %d GPUs with 2 instances each", len(res.GPUs), gpuCount)
	}
	for _, g := range res.GPUs {
		if g.Parent == "" || g.Parent == g.UUID || g.CoveredBytes == nil || *g.CoveredBytes == 0 || g.Assurance.Overwrite != taskcatalog.OverwriteVerified {
			t.Errorf("%+v", g)
		}
	}
}
