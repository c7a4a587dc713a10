package steps

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// program puts a program of this machine on the machine of a test.
func program(t *testing.T, dir, from, name string, mode os.FileMode) {
	t.Helper()
	raw, err := os.ReadFile(from)
	hosttest.OK(t, err)
	hosttest.OK(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
	hosttest.OK(t, os.WriteFile(filepath.Join(dir, name), raw, 0o755))
	hosttest.OK(t, os.Chmod(filepath.Join(dir, name), mode))
}

const aTool = `{"id":"make","kind":"command.exec_allowlisted","with":{"command":"tool"},"command":{"id":"tool","command":"/usr/bin/tool","user":"root","timeout_seconds":10}}`

func TestACommandRunsAndItsExitCodeIsTheProof(t *testing.T) {
	needsRoot(t)
	for _, c := range []struct {
		name, from string
		mode       os.FileMode
		code       taskcatalog.Code
	}{
		{"well", "/bin/true", 0o755, ""},
		{"ill", "/bin/false", 0o755, command.CodeExitCode},
		{"set-uid", "/bin/true", 0o755 | os.ModeSetuid, command.CodeExecutableRefused},
		{"of everybody", "/bin/true", 0o777, command.CodeExecutableInsecure},
		{"not there", "", 0, command.CodeExecutableMissing},
	} {
		h, dir := hosttest.Box(t)
		hosttest.OK(t, os.Chmod(dir, 0o755))
		if c.from != "" {
			program(t, dir, c.from, "usr/bin/tool", c.mode)
		}
		var err error
		h.Commands, err = command.New(dir, time.Now)
		hosttest.OK(t, err)
		t.Cleanup(func() { _ = h.Commands.Close() })
		s := aStep(t, h, CommandKind, Args{"command": "tool"})
		s.PlannedStep = *planned(t, aTool)
		proof, err := do(t, s)
		if got := taskcatalog.CodeOf(err, ""); got != c.code || proof.Profile != "tool" {
			t.Errorf("%s: %+v, %v", c.name, proof, err)
		}
	}
	if k, _ := Lookup(CommandKind); k.Look != nil {
		t.Error("something but its run proves a command")
	}
}

// A link to a shell in the place of the program is found when it would run.
func TestALinkToAShellIsNoCommand(t *testing.T) {
	needsRoot(t)
	h, dir := hosttest.Box(t)
	hosttest.OK(t, os.Chmod(dir, 0o755))
	program(t, dir, "/bin/true", "usr/bin/bash", 0o755)
	hosttest.OK(t, os.Symlink("bash", filepath.Join(dir, "usr/bin/tool")))
	var err error
	h.Commands, err = command.New(dir, time.Now)
	hosttest.OK(t, err)
	t.Cleanup(func() { _ = h.Commands.Close() })
	s := aStep(t, h, CommandKind, Args{"command": "tool"})
	s.PlannedStep = *planned(t, aTool)
	if _, err := do(t, s); taskcatalog.CodeOf(err, "") != command.CodeExecutableRefused {
		t.Error(err)
	}
}

func TestACommandProfileIsJudgedLikeOneOfASet(t *testing.T) {
	if err := checkCommand(planned(t, aTool)); err != nil {
		t.Fatal(err)
	}
	for old, bad := range map[string]string{
		"/usr/bin/tool": "/usr/bin/setpriv", `"user":"root"`: `"user":"root","env_passthrough":["LD_LIBRARY_PATH"]`,
		`"timeout_seconds":10`: `"timeout_seconds":0`, `{"command":"tool"}`: `{"command":"tool","args":{"x":1}}`,
	} {
		if err := checkCommand(planned(t, strings.Replace(aTool, old, bad, 1))); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
