package steps

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/resolver"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

const gpuProfiles = `hardware_profiles:
  - name: nvidia
    match: {gpu.vendor: nvidia}
    overrides:
      gpu.driver.validate: good
      gpu.runtime.check: bad
      gpu.fabric.verify: builtin:none
  - name: bare
    match: {gpu.vendor: none}
    overrides: {gpu.driver.validate: builtin:none}
  - name: other
    match: {}
    overrides: {}
command_profiles:
  - {id: good, command: /usr/bin/good, user: root, timeout_seconds: 10}
  - {id: bad, command: /usr/bin/bad, user: root, timeout_seconds: 10}
`

func TestTheProfilesOfTheNodeSayHowAGPUIsChecked(t *testing.T) {
	needsRoot(t)
	h, dir := hosttest.Box(t)
	hosttest.OK(t, os.Chmod(dir, 0o755))
	program(t, dir, "/bin/true", "usr/bin/good", 0o755)
	program(t, dir, "/bin/false", "usr/bin/bad", 0o755)
	set, problems := profiles.Parse(profiles.File{Name: "gpu.yaml", Text: []byte(gpuProfiles)})
	if problems != nil {
		t.Fatal(problems)
	}
	set.Version = "v1"
	h.Profiles = resolver.Open(t.TempDir())
	_, err := h.Profiles.Apply(set)
	hosttest.OK(t, err)
	h.Commands, err = command.New(dir, time.Now)
	hosttest.OK(t, err)
	t.Cleanup(func() { _ = h.Commands.Close() })
	for _, c := range []struct {
		vendor, kind string
		want         Proof
		code         taskcatalog.Code
		requires     []string // of gpu.vendor
	}{
		{"nvidia", "gpu.driver.validate", Proof{Profile: "good", Match: "nvidia"}, "", nil},
		{"nvidia", "gpu.runtime.check", Proof{Profile: "bad", Match: "nvidia"}, command.CodeExitCode, nil},
		{"nvidia", "gpu.fabric.verify", Proof{Profile: "builtin:none", Match: "nvidia", Nothing: true}, "", nil},
		{"nvidia", "gpu.container_runtime.check", Proof{Match: "nvidia"}, taskcatalog.CodeStepUnsupported, nil},
		{"amd", "gpu.driver.validate", Proof{Match: "other"}, taskcatalog.CodeStepUnsupported, nil},
		{"nvidia", "gpu.fabric.verify", Proof{Profile: "builtin:none", Match: "nvidia", Nothing: true}, "", []string{"amd", "nvidia"}},
		{"none", "gpu.driver.validate", Proof{Profile: "builtin:none", Match: "bare", Nothing: true}, "", nil},
		{"none", "gpu.driver.validate", Proof{}, taskcatalog.CodeCapabilityMissing, []string{"nvidia"}},
		{"", "gpu.driver.validate", Proof{}, taskcatalog.CodeCapabilityMissing, []string{"nvidia"}},
	} {
		h.Facts = func(context.Context) (taskcatalog.Facts, error) {
			return taskcatalog.Facts{Keys: map[string]string{"gpu.vendor": c.vendor}}, nil
		}
		step := aStep(t, h, c.kind, nil)
		if c.requires != nil {
			step.Plan.Requires = map[string][]string{"gpu.vendor": c.requires}
		}
		proof, err := do(t, step)
		proof.Message = ""
		if proof != c.want || taskcatalog.CodeOf(err, "") != c.code {
			t.Errorf("%q, %s, requires %q: %+v, %v", c.vendor, c.kind, c.requires, proof, err)
		}
		if Final(taskcatalog.CodeOf(err, "")) != (c.code == taskcatalog.CodeStepUnsupported) {
			t.Errorf("%q, %s: another attempt after %v", c.vendor, c.kind, err)
		}
	}
}

// A machine that has lost some of its GPUs still has their vendor. The count is the plan's, of the SKU or of the
// definition, whichever is more.
func TestAMachineThatHasLostSomeGPUsFails(t *testing.T) {
	for _, c := range []struct {
		has      string
		sku      int
		requires []string
		code     taskcatalog.Code
	}{
		{"8", 8, nil, ""},
		{"9", 8, []string{"8"}, ""},
		{"1", 0, nil, ""}, // nobody knows how many there should be
		{"1", 8, nil, taskcatalog.CodeCapabilityMissing},
		{"7", 8, []string{"4"}, taskcatalog.CodeCapabilityMissing},
		{"3", 0, []string{"4"}, taskcatalog.CodeCapabilityMissing},
		{"4", 0, []string{"4"}, ""},
		{"", 8, nil, taskcatalog.CodeCapabilityMissing},
		{"", 0, []string{"1"}, taskcatalog.CodeCapabilityMissing},
		{"8", 0, []string{"many"}, taskcatalog.CodePlanInvalid},
	} {
		plan := &taskcatalog.OperationPlan{GPUs: c.sku}
		if c.requires != nil {
			plan.Requires = map[string][]string{taskcatalog.GPUCount: c.requires}
		}
		if err := lostGPU(plan, map[string]string{"gpu.vendor": "nvidia", taskcatalog.GPUCount: c.has}); taskcatalog.CodeOf(err, "") != c.code {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
