package resolver

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/resolver-profiles/profilestest"
	"github.com/hostler/hostler/taskcatalog"
)

func shipped(t testing.TB) *profiles.Set {
	t.Helper()
	set, problems := profiles.Parse(profilestest.Shipped()...)
	if problems != nil {
		t.Fatal(problems)
	}
	return set
}

func parse(t testing.TB, text string) *profiles.Set {
	t.Helper()
	set, problems := profiles.Parse(profiles.File{Name: "set.yaml", Text: []byte(text)})
	if problems != nil {
		t.Fatal(problems)
	}
	return set
}

func TestAStepResolvesToTheVendorsOwn(t *testing.T) {
	set := shipped(t)
	for _, c := range []struct {
		vendor, fabric, step, rule, profile string
		code                                taskcatalog.Code
	}{
		{"nvidia", "nvlink", profiles.StepReset, "nvidia-nvlink", "nvidia_gpu_reset", ""},
		{"nvidia", "nvlink", profiles.StepOverwrite, "nvidia-nvlink", "builtin:nvidia.overwrite", ""},
		{"nvidia", "", profiles.StepFabricVerify, "nvidia", "", profiles.CodeProfileMissing},
		{"amd", "none", profiles.StepReset, "amd", "builtin:amd.reset", ""},
		{"amd", "roce", profiles.StepFabricVerify, "amd-rdma", "amd_rdma_devices", ""},
		{"none", "none", profiles.StepReset, "no-gpu", "builtin:none", ""},
		{"intel", "none", profiles.StepOverwrite, "fallback", "", profiles.CodeProfileMissing},
		{"intel", "none", profiles.StepRuntimeCheck, "fallback", "generic_gpu_runtime_check", ""},
		{"nvidia", "nvlink", "gpu.scrub.wipe", "", "", profiles.CodeUnknownStep},
	} {
		keys := map[string]string{"gpu.vendor": c.vendor}
		if c.fabric != "" {
			keys["fabric.type"] = c.fabric
			if c.fabric == "nvlink" {
				keys["gpu.fabric"] = c.fabric
			}
		}
		r, err := Resolve(set, keys, c.step)
		if r.Rule != c.rule || r.Profile() != c.profile || taskcatalog.CodeOf(err, "") != c.code {
			t.Errorf("%s %s: rule %q, profile %q, %v; want %q, %q, %q", c.vendor, c.step, r.Rule, r.Profile(), err, c.rule, c.profile, c.code)
		}
		if (r.Command != nil) == (r.Builtin != "") && err == nil {
			t.Errorf("%s %s: a command and a builtin, or neither: %+v", c.vendor, c.step, r)
		}
	}
}

// The winner decides alone: a rule below it does not contribute.
func TestTheFirstRuleThatMatchesWinsAsAWhole(t *testing.T) {
	set := parse(t, `hardware_profiles:
  - {name: hopper, match: {gpu.vendor: nvidia, gpu.architecture: hopper}, overrides: {gpu.scrub.verify: builtin:nvidia.verify}}
  - {name: nvidia, match: {gpu.vendor: nvidia}, overrides: {gpu.scrub.reset: builtin:none}}
  - {name: rest, match: {}, overrides: {gpu.scrub.probe: builtin:none}}
`)
	hopper := map[string]string{"gpu.vendor": "nvidia", "gpu.architecture": "hopper"}
	if r, err := Resolve(set, hopper, profiles.StepVerify); err != nil || r.Rule != "hopper" || r.At != "set.yaml:2" {
		t.Errorf("%+v, %v", r, err)
	}
	for _, step := range []string{profiles.StepReset, profiles.StepProbe} {
		if r, err := Resolve(set, hopper, step); taskcatalog.CodeOf(err, "") != profiles.CodeProfileMissing || r.Rule != "hopper" {
			t.Errorf("%s: %+v, %v", step, r, err)
		}
	}
}

func TestAnExplanationSaysOfEveryRuleWhy(t *testing.T) {
	e := shipped(t).Explain(map[string]string{"gpu.vendor": "amd", "fabric.type": "ethernet"}, profiles.StepFabricVerify)
	if e.Rule != "amd" || e.Profile != "amd_xgmi_links" || e.Argv[0] != "/opt/rocm/bin/amd-smi" || e.Code != "" {
		t.Errorf("%+v", e)
	}
	won, why := 0, map[string]string{}
	for _, r := range e.Rules {
		if r.Won {
			won++
		}
		for _, c := range r.Conditions {
			if !c.Holds {
				why[r.Name] += c.Key + " "
			}
		}
		if r.Matched != (why[r.Name] == "") {
			t.Errorf("%s: matched %v, unmet: %s", r.Name, r.Matched, why[r.Name])
		}
	}
	if won != 1 || why["amd-rdma"] != "fabric.type " || why["nvidia-nvlink"] != "gpu.fabric gpu.vendor " {
		t.Errorf("%d winners, %v", won, why)
	}
	if last := e.Rules[len(e.Rules)-1]; !last.Fallback || !last.Matched || last.Won {
		t.Errorf("the fallback: %+v", last)
	}
	e = shipped(t).Explain(nil, profiles.StepReset)
	if e.Rule != "fallback" || e.Code != profiles.CodeProfileMissing || e.Rules[0].Conditions[0].Known {
		t.Errorf("a machine of which nothing is known: %+v", e)
	}
}

func TestARecordHoldsWhatWasAskedFor(t *testing.T) {
	r, err := Resolve(shipped(t), map[string]string{"gpu.vendor": "nvidia", "gpu.fabric": "nvlink"}, profiles.StepReset)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := taskcatalog.Encode(r.Record(2, taskcatalog.StepFailed, "exit_code_unexpected", 1500*time.Millisecond))
	want := `{"step_kind":"gpu.scrub.reset","resolved_profile":"nvidia_gpu_reset","hardware_match":"nvidia-nvlink","attempt_number":2,"status":"failed","error_code":"exit_code_unexpected","duration_ms":1500}`
	if err != nil || string(raw) != want {
		t.Errorf("%s, %v", raw, err)
	}
}

func BenchmarkResolve1000Steps(b *testing.B) {
	set, steps := shipped(b), profiles.Steps()
	facts := map[string]string{"gpu.vendor": "amd", "gpu.architecture": "gfx942", "gpu.driver_series": "6.10", "fabric.type": "roce", "container.runtime": "docker", "compute.runtime": "rocm"}
	b.ReportAllocs()
	for b.Loop() {
		for i := range 1000 {
			if r, err := Resolve(set, facts, steps[i%len(steps)]); err != nil || !strings.HasPrefix(r.Rule, "amd") {
				b.Fatal(r, err)
			}
		}
	}
}
