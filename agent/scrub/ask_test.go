package scrub

import (
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/gpu"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// withToolkit is the set in which the vendor's program gives GPUs to containers, as in the shipped
// profiles.
func withToolkit(t *testing.T, vendor string) *profiles.Set {
	t.Helper()
	program, args := "/usr/bin/nvidia-ctk", "[cdi, generate, --format=json]"
	if vendor == "amd" {
		program, args = "/usr/bin/amd-ctk", "[cdi, list]"
	}
	all := strings.Replace(text(vendor), "gpu.driver.validate: builtin:none", "gpu.driver.validate: builtin:none\n      gpu.container_runtime.check: toolkit", 1)
	all = strings.Replace(all, "command_profiles: []\n", "command_profiles:\n  - id: toolkit\n    command: "+program+"\n    base_args: "+args+"\n    user: root\n    timeout_seconds: 10\n    expected_exit_codes: [0]\n", 1)
	s, problems := profiles.Parse(profiles.File{Name: "test.yaml", Text: []byte(all)})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return s
}

// A toolkit that cannot give out the GPUs is a finding of its own, and no residue.
func TestContainersThatCannotBeGivenGPUsAreAFinding(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		vendor, engine, fault string
		missing               bool // the toolkit is not installed
		status                taskcatalog.StepStatus
		reason, code          taskcatalog.Code
	}{
		"NVIDIA's works":       {vendor: "nvidia", engine: "docker", status: taskcatalog.StepSucceeded},
		"AMD's works":          {vendor: "amd", engine: "containerd", status: taskcatalog.StepSucceeded},
		"NVIDIA's is broken":   {vendor: "nvidia", engine: "containerd", fault: "fault toolkit_broken", status: taskcatalog.StepFailed, reason: command.CodeExitCode, code: codeContainersBroken},
		"AMD's is broken":      {vendor: "amd", engine: "other", fault: "fault toolkit_broken", status: taskcatalog.StepFailed, reason: command.CodeExitCode, code: codeContainersBroken},
		"there is no engine":   {vendor: "nvidia", engine: "none", fault: "fault toolkit_broken", status: taskcatalog.StepSkipped, reason: codeNoEngine},
		"nobody knows of one":  {vendor: "nvidia", fault: "fault toolkit_broken", status: taskcatalog.StepSkipped, reason: codeNoEngine},
		"it was not installed": {vendor: "nvidia", engine: "docker", missing: true, status: taskcatalog.StepSkipped, reason: command.CodeExecutableMissing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, c.vendor, c.fault)
			l.Profiles = withToolkit(t, c.vendor)
			l.Facts.Keys["container.runtime"] = c.engine
			program := map[string]string{"nvidia": "nvidia-ctk", "amd": "amd-ctk"}[c.vendor]
			if c.missing {
				program = "nvidia-smi"
			}
			l.install(program)
			res := l.good()
			at := slices.IndexFunc(res.Steps, func(r taskcatalog.StepRecord) bool { return r.StepKind == profiles.StepContainerRuntime })
			if at < 0 || res.Steps[at].Status != c.status || res.Steps[at].ErrorCode != c.reason || res.Steps[at].ResolvedProfile != "toolkit" {
				t.Errorf("%+v", res.Steps)
			}
			verdict := taskcatalog.VerdictClean
			if c.code != "" {
				verdict = taskcatalog.VerdictInconclusive
			}
			for i := range l.Params.Expected {
				if g := l.of(res, i); g.Verdict != verdict || g.Code != c.code || g.Assurance.Overwrite != taskcatalog.OverwriteVerified {
					t.Errorf("GPU %d is %s %s (%s) %+v", i, g.Verdict, g.Code, g.Message, g.Assurance)
				}
			}
		})
	}
}

// With two vendors, the missing check of the first does not skip the check of the second.
func TestAnOptionalCheckThatOneVendorHasNotIsAskedOfTheOther(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	l.Vendors = []string{"amd", "nvidia"}
	l.units = []*unit{
		{device: gpu.Device{Vendor: "amd", UUID: "a"}, out: taskcatalog.GPUScrubbed{Verdict: taskcatalog.VerdictClean}},
		{device: gpu.Device{Vendor: "nvidia", UUID: "n"}, out: taskcatalog.GPUScrubbed{Verdict: taskcatalog.VerdictClean}},
	}
	all := strings.Replace(text("nvidia"), "gpu.driver.validate: builtin:none", "gpu.driver.validate: builtin:none\n      gpu.runtime.check: site", 1)
	all = strings.Replace(all, "command_profiles: []\n", "command_profiles:\n  - id: site\n    command: /usr/bin/false\n    user: root\n    timeout_seconds: 10\n    expected_exit_codes: [0]\n", 1)
	s, problems := profiles.Parse(profiles.File{Name: "test.yaml", Text: []byte(all)})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	l.Profiles = s
	if err := l.step(t.Context(), profiles.StepRuntimeCheck); err != nil {
		t.Fatal(err)
	}
	if codes := []taskcatalog.Code{l.units[0].out.Code, l.units[1].out.Code}; !slices.Equal(codes, []taskcatalog.Code{"", "runtime_check_failed"}) {
		t.Errorf("%q", codes)
	}
}
