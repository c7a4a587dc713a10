package resolver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// versionOf makes a small set whose rule has the version's name.
func versionOf(name string) *profiles.Set {
	text := fmt.Sprintf("hardware_profiles: [{name: rule-%s, match: {}, overrides: {}}]", name)
	set, problems := profiles.Parse(profiles.File{Name: "set.yaml", Text: []byte(text)})
	if problems != nil {
		panic(problems)
	}
	set.Version = name
	return set
}

func apply(t *testing.T, s *Store, name string) {
	t.Helper()
	if changed, err := s.Apply(versionOf(name)); err != nil || !changed {
		t.Fatalf("%s: %v, %v", name, changed, err)
	}
}

func kept(s *Store) (names []string) {
	for _, k := range s.Kept() {
		names = append(names, k.Version)
	}
	return names
}

func TestWithoutATaskTheCompiledInSetIsInForce(t *testing.T) {
	s := Open(filepath.Join(t.TempDir(), "profiles"))
	if got := s.InForce().Version; got != profiles.MinimalVersion || s.Damaged() != nil || len(s.Kept()) != 0 {
		t.Errorf("%s in force, %v", got, s.Damaged())
	}
	if _, err := s.Rollback(""); taskcatalog.CodeOf(err, "") != CodeNoPrevious {
		t.Errorf("rolled back from it: %v", err)
	}
}

func TestWhatWasAppliedIsInForceAfterARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "profiles")
	s := Open(dir)
	apply(t, s, "v1")
	apply(t, s, "v2")
	again := Open(dir)
	set := again.InForce()
	if set.Version != "v2" || set.HardwareProfiles[0].Name != "rule-v2" || set.Digest() != versionOf("v2").Digest() || again.Damaged() != nil {
		t.Errorf("%+v, %v", set, again.Damaged())
	}
	if changed, err := again.Apply(versionOf("v2")); changed || err != nil {
		t.Errorf("applied again: %v, %v", changed, err)
	}
	info, err := os.Stat(filepath.Join(dir, "v2.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestRollbackGoesBackToWhatIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "profiles")
	s := Open(dir)
	for i := range Keep + 2 {
		apply(t, s, fmt.Sprintf("v%d", i+1))
	}
	if got := kept(s); !slices.Equal(got, []string{"v7", "v6", "v5", "v4", "v3"}) {
		t.Fatalf("kept %v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "v2.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("v2 is still there: %v", err)
	}
	for _, c := range []struct {
		to, want string
		changed  bool
		code     taskcatalog.Code
	}{
		{"", "v6", true, ""},
		{"", "v5", true, ""},
		{"v5", "v5", false, ""},
		{"v7", "v7", true, ""},
		{"v3", "v3", true, ""},
		{"", "v3", false, CodeNoPrevious},
		{"v2", "v3", false, CodeVersionUnknown},
		{"../current", "v3", false, CodeVersionUnknown},
	} {
		changed, err := s.Rollback(c.to)
		if changed != c.changed || taskcatalog.CodeOf(err, "") != c.code || s.InForce().Version != c.want || Open(dir).InForce().Version != c.want {
			t.Errorf("to %q: %v, %v, %s in force; want %s", c.to, changed, err, s.InForce().Version, c.want)
		}
	}
}

func TestAVersionNeverChangesItsContent(t *testing.T) {
	s := Open(filepath.Join(t.TempDir(), "profiles"))
	apply(t, s, "v1")
	other := versionOf("v2")
	other.Version = "v1"
	if _, err := s.Apply(other); taskcatalog.CodeOf(err, "") != CodeVersionTaken {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"", "minimal", "../v1", ".v1", "V1", "a/b", "v1\n", strings.Repeat("v", 65), "x.json.new"} {
		set := versionOf("v2")
		set.Version = name
		if _, err := s.Apply(set); taskcatalog.CodeOf(err, "") != CodeBadVersion {
			t.Errorf("version %q: %v", name, err)
		}
	}
	if s.InForce().HardwareProfiles[0].Name != "rule-v1" {
		t.Errorf("%+v in force", s.InForce())
	}
}

// The files on disk may have been changed.
func TestADamagedStoreIsNotInForce(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"current is cut":   func(d string) error { return os.Truncate(filepath.Join(d, currentFile), 10) },
		"current is empty": func(d string) error { return os.Truncate(filepath.Join(d, currentFile), 0) },
		"current is a path": func(d string) error {
			return os.WriteFile(filepath.Join(d, currentFile), []byte(`{"version":"../x","kept":[{"version":"../x","digest":"sha256:"}]}`), 0o600)
		},
		"the set is gone": func(d string) error { return os.Remove(filepath.Join(d, "v1.json")) },
		"the set is another": func(d string) error {
			return os.WriteFile(filepath.Join(d, "v1.json"), []byte(`{"hardware_profiles":[{"name":"x","match":{},"overrides":{}}],"command_profiles":[]}`), 0o600)
		},
		"the set names a shell": func(d string) error {
			return os.WriteFile(filepath.Join(d, "v1.json"), []byte(`{"hardware_profiles":[{"name":"x","match":{},"overrides":{"gpu.runtime.check":"x"}}],"command_profiles":[{"id":"x","command":"/bin/sh","user":"root","timeout_seconds":1}]}`), 0o600)
		},
		"the set is a link out of the store": func(d string) error {
			return errors.Join(os.Rename(filepath.Join(d, "v1.json"), filepath.Join(d, "..", "out.json")), os.Symlink("../out.json", filepath.Join(d, "v1.json")))
		},
	} {
		dir := filepath.Join(t.TempDir(), "profiles")
		apply(t, Open(dir), "v1")
		if err := damage(dir); err != nil {
			t.Fatal(err)
		}
		s := Open(dir)
		if got := s.InForce().Version; got != profiles.MinimalVersion || taskcatalog.CodeOf(s.Damaged(), "") == "" {
			t.Errorf("%s: %s in force, %v", name, got, s.Damaged())
		}
		// The same set repairs the store.
		if _, err := s.Apply(versionOf("v2")); err != nil || Open(dir).InForce().Version != "v2" || s.Damaged() != nil {
			t.Errorf("%s: not mended: %v, %v", name, err, s.Damaged())
		}
	}
}

// TestMain is also the process that dies: it makes a single change to a store and kills itself
// before the named step.
func TestMain(m *testing.M) {
	dir := os.Getenv("RESOLVER_TEST_STORE")
	if dir == "" {
		os.Exit(m.Run())
	}
	left, err := strconv.Atoi(os.Getenv("RESOLVER_TEST_STEPS"))
	if err != nil {
		panic(err)
	}
	s := Open(dir)
	s.at = func(step string) error {
		if left == 0 {
			fmt.Println(step)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		left--
		return nil
	}
	if os.Getenv("RESOLVER_TEST_ACT") == "rollback" {
		_, err = s.Rollback("v4")
	} else {
		_, err = s.Apply(versionOf("v6"))
	}
	if err != nil {
		panic(err)
	}
}

// kill -9 at any step leaves the old set or the new set in force, and repeating the same task ends
// as if nothing had happened.
func TestAKillAtAnyStepLeavesOneWholeSet(t *testing.T) {
	for _, act := range []struct {
		name, want string
		do         func(*Store) error
	}{
		{"apply", "v6", func(s *Store) error { _, err := s.Apply(versionOf("v6")); return err }},
		{"rollback", "v4", func(s *Store) error { _, err := s.Rollback("v4"); return err }},
	} {
		inForce := map[string]int{}
		for steps := 0; ; steps++ {
			dir := filepath.Join(t.TempDir(), "profiles")
			for i := range Keep {
				apply(t, Open(dir), fmt.Sprintf("v%d", i+1))
			}
			child := exec.CommandContext(t.Context(), "/proc/self/exe")
			child.Env = []string{"RESOLVER_TEST_STORE=" + dir, "RESOLVER_TEST_ACT=" + act.name, fmt.Sprintf("RESOLVER_TEST_STEPS=%d", steps)}
			where, err := child.Output()
			if err == nil {
				break // ended without reaching the step
			}
			if child.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("%s: %v", act.name, err)
			}
			after := Open(dir)
			got := after.InForce().Version
			inForce[got]++
			if got != "v5" && got != act.want || after.Damaged() != nil {
				t.Errorf("%s, killed before %s: %s in force, %v", act.name, where, got, after.Damaged())
			}
			if err := act.do(after); err != nil || Open(dir).InForce().Version != act.want {
				t.Errorf("%s again, killed before %s: %v, %s in force", act.name, where, err, Open(dir).InForce().Version)
			}
			// The next change removes all remains of the crash.
			apply(t, after, "v9")
			names, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(names) != Keep+1 {
				t.Errorf("%s, killed before %s: left %v, %v", act.name, where, names, err)
			}
		}
		if inForce["v5"] < 2 || inForce[act.want] < 2 {
			t.Errorf("%s: the kills left %v: not on both sides", act.name, inForce)
		}
	}
}
