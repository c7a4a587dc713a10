package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent"
	"github.com/hostler/hostler/taskcatalog"
)

func TestOnlyRootHoldsATerminalSession(t *testing.T) {
	dir, err := os.MkdirTemp("", "session")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "hostler-agent"), self, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"session", "session-ended"} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "hostler-agent"), command, "ts-7k2m4q6s")
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.Contains(string(out), string(codeNotRoot)) {
			t.Errorf("%s as nobody: %s (%v)", command, out, err)
		}
	}
}

// The process runs the version that starts it; the program after it may be of a later version,
// which has replaced all earlier files.
func TestASessionIsOfThisVersionAndItsEndOfWhicheverIsThere(t *testing.T) {
	config := &agent.Config{File: agent.File{StateDir: "/var/lib/hostler-agent"}}
	slot := taskcatalog.AgentFolder + "/versions/1.4.0/hostler-agent"
	if s := terminals(config, agent.DefaultConfigFile, taskcatalog.AgentFolder, slot, true); s.Program != slot || s.After != taskcatalog.AgentFolder+"/current/hostler-agent" || s.StateDir != config.StateDir || s.Config != "" {
		t.Errorf("%+v", s)
	}
	if s := terminals(config, agent.DefaultConfigFile, taskcatalog.AgentFolder, "/opt/hostler-agent", true); s.Program != "/opt/hostler-agent" || s.After != s.Program {
		t.Errorf("%+v", s)
	}
	t.Chdir("/tmp")
	for given, want := range map[string]string{"/srv/agent.yaml": "/srv/agent.yaml", "agent.yaml": "/tmp/agent.yaml"} {
		if s := terminals(config, given, taskcatalog.AgentFolder, slot, true); s.Config != want {
			t.Errorf("with a config file of its own: %+v", s)
		}
	}
	if s := terminals(config, agent.DefaultConfigFile, taskcatalog.AgentFolder, slot, false); s != nil {
		t.Errorf("without systemd: %+v", s)
	}
}

// The broker is told only of a process that did not end by itself.
func TestOnlyAProcessThatWasKilledIsTold(t *testing.T) {
	for result, want := range map[string]string{"": "", "success": "", "signal": "signal", "oom-kill": "oom-kill", "exit-code": "exit-code", "timeout": "timeout"} {
		t.Setenv("SERVICE_RESULT", result)
		told, refusal := "", errors.New("nobody hears it")
		err := ifKilled(zap.NewNop(), func(how string) error { told = how; return refusal })
		if told != want || (err == nil) != (want == "") {
			t.Errorf("after %q it is told %q (%v)", result, told, err)
		}
	}
}
