package resolver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// version makes a small set whose rule bears the version's name.
func version(t *testing.T, name string) *profiles.Set {
	t.Helper()
	set := parse(t, fmt.Sprintf("hardware_profiles: [{name: rule-%s, match: {}, overrides: {}}]", name))
	set.Version = name
	return set
}

func apply(t *testing.T, s *Store, name string) {
	t.Helper()
	if changed, err := s.Apply(version(t, name)); err != nil || !changed {
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
	if set.Version != "v2" || set.HardwareProfiles[0].Name != "rule-v2" || set.Digest() != version(t, "v2").Digest() || again.Damaged() != nil {
		t.Errorf("%+v, %v", set, again.Damaged())
	}
	if changed, err := again.Apply(version(t, "v2")); changed || err != nil {
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
	other := version(t, "v2")
	other.Version = "v1"
	if _, err := s.Apply(other); taskcatalog.CodeOf(err, "") != CodeVersionTaken {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"", "minimal", "../v1", ".v1", "V1", "a/b", "v1\n", strings.Repeat("v", 65), "x.json.new"} {
		set := version(t, "v2")
		set.Version = name
		if _, err := s.Apply(set); taskcatalog.CodeOf(err, "") != CodeBadVersion {
			t.Errorf("version %q: %v", name, err)
		}
	}
	if s.InForce().HardwareProfiles[0].Name != "rule-v1" {
		t.Errorf("%+v in force", s.InForce())
	}
}

// What stands on disk may have been changed there.
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
		// The same set mends it.
		if _, err := s.Apply(version(t, "v2")); err != nil || Open(dir).InForce().Version != "v2" || s.Damaged() != nil {
			t.Errorf("%s: not mended: %v, %v", name, err, s.Damaged())
		}
	}
}

// A crash at any step leaves the old set in force or the new one, and the same
// task done again ends as if there had been none.
func TestACrashAtAnyStepLeavesOneWholeSet(t *testing.T) {
	crash := errors.New("kill -9")
	for _, act := range []struct {
		name string
		do   func(*Store) error
		want string
	}{
		{"apply", func(s *Store) error { _, err := s.Apply(version(t, "v6")); return err }, "v6"},
		{"rollback", func(s *Store) error { _, err := s.Rollback("v4"); return err }, "v4"},
	} {
		steps := 0
		for at := 0; ; at++ {
			dir := filepath.Join(t.TempDir(), "profiles")
			s := Open(dir)
			for i := range Keep {
				apply(t, s, fmt.Sprintf("v%d", i+1))
			}
			n, where := 0, ""
			s.at = func(step string) error {
				if n++; n > at {
					where = step
					return crash
				}
				return nil
			}
			err := act.do(s)
			if !errors.Is(err, crash) {
				if err != nil || at == 0 {
					t.Fatalf("%s: no step to crash at: %v", act.name, err)
				}
				break
			}
			steps++
			after := Open(dir)
			if got := after.InForce().Version; got != "v5" && got != act.want || after.Damaged() != nil {
				t.Errorf("%s, crash at %s: %s in force, %v", act.name, where, got, after.Damaged())
			}
			if err := act.do(after); err != nil || Open(dir).InForce().Version != act.want {
				t.Errorf("%s again after a crash at %s: %v, %s in force", act.name, where, err, Open(dir).InForce().Version)
			}
			// The next change leaves nothing of the crash behind.
			apply(t, after, "v9")
			names, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(names) != Keep+1 {
				t.Errorf("%s, crash at %s: left %v, %v", act.name, where, names, err)
			}
		}
		if steps < 4 {
			t.Errorf("%s: only %d steps were tried", act.name, steps)
		}
	}
}
