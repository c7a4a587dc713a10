package scrub

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/gpu"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// install gives the machine a program of the vendor.
func (l *lab) install(program string) {
	l.t.Helper()
	root := l.t.TempDir()
	bin := filepath.Join(root, "usr", "bin")
	content, err := os.ReadFile(filepath.Join(l.Libs, program))
	for _, err := range []error{err, os.MkdirAll(bin, 0o755), os.WriteFile(filepath.Join(bin, program), content, 0o755), os.Symlink(l.Dir, filepath.Join(bin, "fakegpu"))} {
		if err != nil {
			l.t.Fatal(err)
		}
	}
	if l.Commands, err = command.New(root, time.Now); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = l.Commands.Close() })
}

// withReset gives an NVIDIA machine the program that resets GPUs.
func (l *lab) withReset() {
	l.t.Helper()
	l.install("nvidia-smi")
	text := strings.Replace(text("nvidia"), "gpu.scrub.reset: builtin:none", "gpu.scrub.reset: reset", 1)
	text = strings.Replace(text, "command_profiles: []\n", `command_profiles:
  - id: reset
    command: /usr/bin/nvidia-smi
    base_args: [--gpu-reset]
    arg_schema:
      - {name: gpus, type: list, pattern: 'GPU-[0-9a-f-]{36}', max_items: 16, flag: "-i", join: ",", required: true}
    user: root
    timeout_seconds: 60
    expected_exit_codes: [0]
    capture_stdout: true
`, 1)
	set, problems := profiles.Parse(profiles.File{Name: "test.yaml", Text: []byte(text)})
	if len(problems) > 0 {
		l.t.Fatal(problems)
	}
	l.Profiles = set
}

// divided is a machine whose GPU 1 was divided by a tenant: into two MIG instances or two AMD
// partitions.
func divided(t *testing.T, vendor string, config ...string) *lab {
	t.Helper()
	how := map[string]string{"nvidia": "fault.1 mig_on", "amd": "instances.1 2"}[vendor]
	l := newLab(t, vendor, append([]string{"memory 64M", how}, config...)...)
	one := &l.Params.Expected[1]
	one.Settings.Partition, one.Instances = l.Params.Expected[0].Settings.Partition, nil
	if vendor == "nvidia" {
		l.withReset()
	}
	return l
}

// attempts returns the attempts of a step.
func attempts(res *taskcatalog.GPUScrubResult, step string) []taskcatalog.StepStatus {
	var all []taskcatalog.StepStatus
	for _, r := range res.Steps {
		if r.StepKind == step {
			all = append(all, r.Status)
			if r.AttemptNumber != len(all) {
				all = append(all, "numbered wrong")
			}
		}
	}
	return all
}

func TestAGPUThatATenantDividedIsBroughtBackAndOverwrittenWhole(t *testing.T) {
	t.Parallel()
	twice := []taskcatalog.StepStatus{taskcatalog.StepSucceeded, taskcatalog.StepSucceeded}
	for _, vendor := range []string{"nvidia", "amd"} {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			l := divided(t, vendor)
			l.plant(1, 5<<20)  // in the first instance
			l.plant(1, 60<<20) // in the second
			l.plant(1, 1<<20)  // in the driver's reserve, cleared only by a reset
			res := l.good()
			g := l.want(res, 1, taskcatalog.VerdictClean, "")
			if g.Parent != "" || *g.CoveragePercent < 90 || *g.TotalBytes != 64<<20 || g.Assurance.Overwrite != taskcatalog.OverwriteVerified || *g.ProbedBytes < *g.CoveredBytes/100*probeShare {
				t.Errorf("%+v", g)
			}
			if *g.ResidueWords < 2*3 {
				t.Errorf("%d words of residue: what was in the instances is forgotten", *g.ResidueWords)
			}
			if g.Assurance.Reset != taskcatalog.ResetProven || vendor == "nvidia" && !slices.Contains(g.ResetWitnesses, "owed: partition") {
				t.Errorf("the reset is %s by %q", g.Assurance.Reset, g.ResetWitnesses)
			}
			if len(res.GPUs) != gpuCount || l.left(1) != 0 {
				t.Errorf("%d GPUs, %d tokens left", len(res.GPUs), l.left(1))
			}
			for _, step := range []string{profiles.StepOverwrite, profiles.StepVerify, profiles.StepRestore} {
				if got := attempts(res, step); !slices.Equal(got, twice) {
					t.Errorf("%s: %q", step, got)
				}
			}
			state, err := l.Helper.State(t.Context(), gpu.Device{Vendor: vendor, UUID: l.uuid(1)})
			if err != nil || state.Settings.Partition != l.Params.Expected[1].Settings.Partition || state.Pending.Partition != "" {
				t.Errorf("its mode: %+v, %v", state, err)
			}
			if other := l.of(res, 0); *other.CoveredBytes == 0 || other.Code != "" {
				t.Errorf("%+v", other)
			}
		})
	}
}

// A fault of an instance is a fault of the GPU, whatever the second overwrite finds.
func TestWhatWasWrongWithAnInstanceStaysWithItsGPU(t *testing.T) {
	t.Parallel()
	l := divided(t, "nvidia")
	l.faults("memory 64M", "fault.1 drops_writes")
	l.plant(1, 5<<20)
	l.Progress = func(step string, _, _, _ int, message string) {
		if step == profiles.StepReset && message == "" {
			l.faults("memory 64M")
		}
	}
	if g := l.want(l.good(), 1, taskcatalog.VerdictNotClean, taskcatalog.CodeGPUResidue); g.Parent != "" {
		t.Errorf("%+v", g)
	}
}

// Without an instance the memory of a GPU in MIG mode is inaccessible.
func TestAGPUInMIGModeWithoutAnInstanceIsOverwrittenAfterItsReset(t *testing.T) {
	t.Parallel()
	l := divided(t, "nvidia", "instances.1 0")
	g := l.want(l.good(), 1, taskcatalog.VerdictClean, "")
	if *g.CoveragePercent < 95 || g.Assurance.Reset != taskcatalog.ResetProven {
		t.Errorf("%+v", g)
	}
}

// The second overwrite waits for the fabric, because the reset took the GPU out of it. A GPU that
// does not come back is not clean.
func TestTheSecondOverwriteWaitsForTheFabric(t *testing.T) {
	t.Parallel()
	for polls, code := range map[string]taskcatalog.Code{"3": "", "never": gpu.CodeFabricNotReady} {
		t.Run(polls, func(t *testing.T) {
			t.Parallel()
			l := divided(t, "nvidia", "fabric on", "fault.1 fabric_slow "+polls)
			verdict := taskcatalog.VerdictInconclusive
			if code == "" {
				verdict = taskcatalog.VerdictClean
				l.Params.Policy.FabricWaitSeconds = 600 // each poll starts a process, which takes seconds on a busy machine
			}
			g := l.want(l.good(), 1, verdict, code)
			if g.Parent != "" || (g.CoveredBytes == nil) != (code != "") {
				t.Errorf("%+v", g)
			}
		})
	}
}

// A pending mode change is undone before a reset applies it.
func TestAModeThatWaitsForAResetIsTakenBack(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia", "fault.1 mig_pending")
	l.withReset()
	res := l.good()
	g := l.want(res, 1, taskcatalog.VerdictClean, "")
	if len(attempts(res, profiles.StepOverwrite)) != 1 || g.CoveredBytes == nil {
		t.Errorf("%+v", res.Steps)
	}
	if state, err := l.Helper.State(t.Context(), gpu.Device{Vendor: "nvidia", UUID: l.uuid(1)}); err != nil || state.Settings.Partition != "mig_disabled" || state.Pending.Partition != "" {
		t.Errorf("%+v, %v", state, err)
	}
}

// If there is no reset, or the reset does not bring the mode back, a GPU overwritten only in parts
// is not clean.
func TestAGPUThatStaysDividedIsNotClean(t *testing.T) {
	t.Parallel()
	fault := func(name string) func(*lab) {
		return func(l *lab) { l.faults("memory 64M", "fault.1 "+name) }
	}
	for name, c := range map[string]struct {
		change func(*lab)
		kept   bool // the instances are left alone
		code   taskcatalog.Code
	}{
		"the task leaves the reset out": {func(l *lab) { l.Params.Reset = "never" }, true, codeGPUChanged},
		"the platform has none":         {func(l *lab) { l.Profiles = set(t, "nvidia") }, true, codeGPUChanged},
		"settings are the site's":       {func(l *lab) { l.Profiles = without(t, "nvidia", profiles.StepRestore) }, true, codeGPUChanged},
		"the reset is refused":          {fault("in_use_on_reset"), false, codeGPUChanged},
		"the reset lies":                {fault("lying_reset"), false, codeGPUChanged},
		"the mode is refused":           {fault("refuses mig"), false, codeGPUChanged},
		"the instances stay":            {fault("refuses mig_instances"), true, codeGPUChanged},
		"somebody holds it": {func(l *lab) {
			fault("holder 4194000")(l)
			l.Params.Policy.KeepHolders = true
		}, true, taskcatalog.CodeGPUHolderPresent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := divided(t, "nvidia")
			c.change(l)
			res, whole := l.good(), l.uuid(1)
			if res.Verdict != taskcatalog.VerdictNotClean || len(res.GPUs) != gpuCount+1 {
				t.Errorf("%s, %d units", res.Verdict, len(res.GPUs))
			}
			for _, g := range res.GPUs {
				if g.Parent == whole && (g.Verdict != taskcatalog.VerdictNotClean || g.Code != c.code) {
					t.Errorf("%s is %s %s (%s)", g.UUID, g.Verdict, g.Code, g.Message)
				}
			}
			if left := len(l.Helper.Survey(t.Context(), "nvidia").GPUs[1].Instances); c.kept && left != 2 {
				t.Errorf("%d instances are left", left)
			}
		})
	}
}

// A reset leaves no MIG instance, and nobody knows the places of the baseline's instances: the
// overwrite counts, and the missing instances are reported.
func TestInstancesOfTheBaselineThatATenantTookAwayAreAFinding(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia", "instances.1 0")
	one := &l.Params.Expected[1]
	one.Settings.Partition, one.Instances = "mig_enabled", []string{"MIG-a", "MIG-b"}
	l.withReset()
	g := l.want(l.good(), 1, taskcatalog.VerdictNotClean, codeGPUChanged)
	if g.CoveredBytes == nil || g.Assurance.Overwrite != taskcatalog.OverwriteVerified || !strings.Contains(g.Message, "MIG-b") {
		t.Errorf("%+v", g)
	}
}
