package tasks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/resolver"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// toolSet is a set whose rule for NVIDIA runs /usr/bin/NAME.
func toolSet(t *testing.T, name string) *profiles.Set {
	t.Helper()
	set, problems := profiles.Parse(profiles.File{Name: "set.yaml", Text: []byte(`hardware_profiles:
  - {name: nvidia, match: {gpu.vendor: nvidia}, overrides: {gpu.runtime.check: ` + name + `}}
  - {name: rest, match: {}, overrides: {}}
command_profiles:
  - {id: ` + name + `, command: /usr/bin/` + name + `, user: root, timeout_seconds: 10}
`)})
	if problems != nil {
		t.Fatal(problems)
	}
	return set
}

func carry(t *testing.T, version string, set *profiles.Set) *taskcatalog.ResolverConfigParams {
	t.Helper()
	raw, err := set.Encode()
	hosttest.OK(t, err)
	return &taskcatalog.ResolverConfigParams{Version: version, Digest: set.Digest(), Profiles: raw}
}

// resolverBox is a machine with an NVIDIA GPU and the program tool.
func resolverBox(t *testing.T) (*host.Host, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make files that belong to root")
	}
	h, dir := hosttest.Box(t)
	hosttest.OK(t, os.MkdirAll(dir+"/usr/bin", 0o755))
	hosttest.OK(t, os.WriteFile(dir+"/usr/bin/tool", []byte("\x7fELF…"), 0o755))
	runner, err := command.New(dir, time.Now)
	hosttest.OK(t, err)
	t.Cleanup(func() { _ = runner.Close() })
	h.Commands = runner
	h.Profiles = resolver.Open(filepath.Join(dir, "state", "profiles"))
	hosttest.OK(t, os.MkdirAll(filepath.Join(dir, "state"), 0o700))
	h.Facts = func(context.Context) (taskcatalog.Facts, error) {
		return taskcatalog.Facts{Keys: map[string]string{"gpu.vendor": "nvidia"}}, nil
	}
	return h, dir
}

func config(t *testing.T, h *host.Host, p *taskcatalog.ResolverConfigParams) (*taskcatalog.ResolverConfigResult, error) {
	t.Helper()
	res, _, err := resolverConfig(t.Context(), &host.Run{Task: &taskcatalog.Task{}, Params: p, Host: h})
	return res.(*taskcatalog.ResolverConfigResult), err
}

func TestProfilesAreTakenWholeAndAgainWithoutChange(t *testing.T) {
	h, dir := resolverBox(t)
	set := toolSet(t, "tool")
	for i, changed := range []bool{true, false} {
		res, err := config(t, h, carry(t, "v1", set))
		if err != nil || res.Version != "v1" || res.Digest != set.Digest() || res.Changed != changed || len(res.Problems) != 0 || len(res.Kept) != 1 {
			t.Errorf("time %d: %+v, %v", i+1, res, err)
		}
	}
	if got := resolver.Open(filepath.Join(dir, "state", "profiles")).InForce(); got.Version != "v1" || got.Digest() != set.Digest() {
		t.Errorf("after a restart: %s", got.Version)
	}
	if got := probeResolver(t.Context(), h, nil); !strings.Contains(got, "profiles v1 are in force, sha256:") {
		t.Errorf("%s", got)
	}
}

func TestProfilesAreRolledBack(t *testing.T) {
	h, _ := resolverBox(t)
	for version, name := range map[string]string{"v1": "tool"} {
		_, err := config(t, h, carry(t, version, toolSet(t, name)))
		hosttest.OK(t, err)
	}
	_, err := config(t, h, carry(t, "v2", toolSet(t, "missing")))
	hosttest.OK(t, err)
	for _, c := range []struct {
		to, want string
		changed  bool
		code     taskcatalog.Code
	}{
		{"", "v1", true, ""},
		{"", "v1", false, resolver.CodeNoPrevious},
		{"v1", "v1", false, ""},
		{"v2", "v2", true, ""},
		{"v3", "v2", false, resolver.CodeVersionUnknown},
	} {
		res, err := config(t, h, &taskcatalog.ResolverConfigParams{Action: "rollback", Version: c.to})
		if taskcatalog.CodeOf(err, "") != c.code || res.Version != c.want || res.Changed != c.changed {
			t.Errorf("to %q: %+v, %v", c.to, res, err)
		}
	}
}

// Each attack is a validly signed task: the content of the set decides.
func TestProfilesThatAreRefusedChangeNothing(t *testing.T) {
	good := func(t *testing.T) *taskcatalog.ResolverConfigParams { return carry(t, "v2", toolSet(t, "tool")) }
	replace := func(old, new string) func(*testing.T, *host.Host, string) *taskcatalog.ResolverConfigParams {
		return func(t *testing.T, _ *host.Host, _ string) *taskcatalog.ResolverConfigParams {
			p := good(t)
			if !strings.Contains(string(p.Profiles), old) {
				t.Fatalf("no %s in %s", old, p.Profiles)
			}
			p.Profiles = []byte(strings.Replace(string(p.Profiles), old, new, 1))
			return p
		}
	}
	for name, c := range map[string]struct {
		attack func(*testing.T, *host.Host, string) *taskcatalog.ResolverConfigParams
		code   taskcatalog.Code
		says   string
	}{
		"no set": {func(*testing.T, *host.Host, string) *taskcatalog.ResolverConfigParams {
			return &taskcatalog.ResolverConfigParams{Version: "v2"}
		}, taskcatalog.CodeBadParams, "carries none"},
		"a shell":          {replace("/usr/bin/tool", "/bin/sh"), codeProfilesInvalid, "set.yaml:5: runs_other_programs"},
		"a relative path":  {replace("/usr/bin/tool", "usr/bin/tool"), codeProfilesInvalid, "set.yaml:5: path_not_absolute"},
		"an unknown step":  {replace("gpu.runtime.check", "gpu.runtime"), codeProfilesInvalid, "set.yaml:2: unknown_step"},
		"another program":  {replace("/usr/bin/tool", "/usr/bin/t00l"), codeDigestMismatch, "digest"},
		"no fallback":      {replace(`"match":{},`, `"match":{"gpu.vendor":["amd"]},`), codeProfilesInvalid, "fallback_missing"},
		"not a set at all": {replace(`"hardware_profiles"`, `"hardware"`), codeProfilesInvalid, "malformed"},
		"too large":        {replace(`"overrides":{}`, `"overrides":{`+strings.Repeat(" ", profiles.MaxSize)+"}"), codeProfilesInvalid, "too_large"},
		"a version that is taken": {func(t *testing.T, _ *host.Host, _ string) *taskcatalog.ResolverConfigParams {
			return carry(t, "v1", toolSet(t, "tool"))
		}, resolver.CodeVersionTaken, "other content"},
		"the version of the compiled-in set": {func(t *testing.T, _ *host.Host, _ string) *taskcatalog.ResolverConfigParams {
			return carry(t, "minimal", toolSet(t, "tool"))
		}, resolver.CodeBadVersion, "not a valid version"},
		"a program that others may write": {func(t *testing.T, _ *host.Host, dir string) *taskcatalog.ResolverConfigParams {
			hosttest.OK(t, os.Chmod(dir+"/usr/bin/tool", 0o777))
			return good(t)
		}, codeRefusedHere, "executable_insecure"},
		"a program in a tenant's folder": {func(t *testing.T, _ *host.Host, dir string) *taskcatalog.ResolverConfigParams {
			hosttest.OK(t, os.Chown(dir+"/usr/bin", 1000, 1000))
			return good(t)
		}, codeRefusedHere, "executable_insecure"},
		"a link to a shell": {func(t *testing.T, _ *host.Host, dir string) *taskcatalog.ResolverConfigParams {
			hosttest.OK(t, os.Rename(dir+"/usr/bin/tool", dir+"/usr/bin/dash"))
			hosttest.OK(t, os.Symlink("dash", dir+"/usr/bin/tool"))
			return good(t)
		}, codeRefusedHere, "executable_refused"},
		"a machine that cannot be judged": {func(t *testing.T, h *host.Host, _ string) *taskcatalog.ResolverConfigParams {
			h.Facts = func(context.Context) (taskcatalog.Facts, error) { return taskcatalog.Facts{}, errors.New("no sysfs") }
			return good(t)
		}, "", "no sysfs"},
	} {
		h, dir := resolverBox(t)
		before := toolSet(t, "absent")
		_, err := config(t, h, carry(t, "v1", before))
		hosttest.OK(t, err)
		res, err := config(t, h, c.attack(t, h, dir))
		if err == nil || taskcatalog.CodeOf(err, "") != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s: %s", name, err, c.code, c.says)
		}
		if res.Changed || res.Version != "v1" || res.Digest != before.Digest() || (c.code == codeProfilesInvalid || c.code == codeRefusedHere) != (len(res.Problems) > 0) {
			t.Errorf("%s: %+v", name, res)
		}
		if got := resolver.Open(filepath.Join(dir, "state", "profiles")).InForce().Version; got != "v1" {
			t.Errorf("%s: %s in force after a restart", name, got)
		}
	}
}

// A node without a driver must be able to report the lack by its steps.
func TestAProgramThatIsNotInstalledIsToldAndRefusesNothing(t *testing.T) {
	h, _ := resolverBox(t)
	res, err := config(t, h, carry(t, "v1", toolSet(t, "absent")))
	if err != nil || res.Version != "v1" || len(res.Problems) != 1 || res.Problems[0].Code != command.CodeExecutableMissing || res.Problems[0].File != "set.yaml" || res.Problems[0].Line != 5 {
		t.Fatalf("%+v, %v", res, err)
	}
	// Programs named only by rules for other hardware are not judged here.
	h.Facts = func(context.Context) (taskcatalog.Facts, error) {
		return taskcatalog.Facts{Keys: map[string]string{"gpu.vendor": "amd"}}, nil
	}
	if res, err := config(t, h, carry(t, "v1", toolSet(t, "absent"))); err != nil || len(res.Problems) != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}
