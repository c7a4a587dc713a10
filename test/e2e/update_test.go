//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/registry"
)

// older are the commits of the agents that the broker must still serve, newest first.
var older = []struct{ version, commit string }{
	{"0.0.9", "7e31cb6140fa06fd3e809772d96390dc9b541339"}, // this agent cannot update itself
	{"0.0.8", "2c1c7aa"},
}

// A node starts with the agent of the previous release: the node runs tasks, is updated by hand,
// updates itself, and rolls back a version that does not work.
func TestANodeGoesFromAnOlderAgentToNewerOnes(t *testing.T) {
	s := newSite(t)
	was := older[0]
	program, err := s.BuildAgentOf(s.ctx, was.commit, was.version)
	if err != nil {
		t.Fatal(err)
	}
	s.restore(installed)
	first := strings.Fields(s.root("hostler-agent", "version"))[1]
	s.runFrom(was.version, program)
	s.enrol()
	s.part("TheOlderAgentIsServed", func(s *site) {
		s.provision("a-1", "alice")
		s.must("allocation.revoke_user", map[string]any{"allocation_id": "a-1", "username": "alice"})
		s.says(was.version)
		if told := s.reported(); told != was.version {
			s.t.Errorf("the broker shows it as %s", told)
		}
	})
	s.root("ln", "-sfn", "versions/"+first, "/usr/lib/hostler-agent/current")
	s.root("systemctl", "restart", "hostler-agent")
	// The broker orders an update only after the agent has reported that it knows the task.
	err = s.Wait(s.ctx, "the broker to know of the newer agent", func() error {
		if told := s.reported(); told != first {
			return fmt.Errorf("it knows of %s", told)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r := s.releases()
	r.runs(first)
	s.part("AGoodUpdateFromARegistry", func(s *site) {
		r := r.of(s)
		r.build("9.0.0", "--registry", s.registry(registry.Start(s.t, registry.Config{}).Addr), "--plain-http")
		got, res := r.update("9.0.0", 30*time.Second, func() {})
		if got.Status != "succeeded" || res.Outcome != taskcatalog.UpdateConfirmed || res.FromVersion != first || res.ToVersion != "9.0.0" {
			s.t.Fatalf("%+v %+v", got, res)
		}
		s.t.Logf("switched in %.1f s", res.SwitchSeconds)
		r.holds("9.0.0")
	})
	s.part("ABrokenOneIsPutBack", func(s *site) {
		r := r.of(s)
		r.fault("9.1.0", "exit 1")
		got, res := r.update("9.1.0", 30*time.Second, func() {})
		if got.Status != "failed" || taskcatalog.Code(got.Code) != selfupdate.CodeCrashLoop || res.Outcome != taskcatalog.UpdateRolledBack {
			s.t.Fatalf("%+v %+v", got, res)
		}
		if res.SwitchSeconds > 15 {
			s.t.Errorf("it took %.1f s", res.SwitchSeconds)
		}
		s.t.Logf("put back in %.1f s", res.SwitchSeconds)
		if again, _ := r.update("9.1.0", 30*time.Second, func() {}); taskcatalog.Code(again.Code) != selfupdate.CodePinned {
			s.t.Errorf("once more: %+v", again)
		}
		r.holds("9.0.0")
	})
}

// runFrom replaces the program of the guest's agent, which does not run yet.
func (s *site) runFrom(version, program string) {
	s.t.Helper()
	raw, err := os.ReadFile(program)
	if err != nil {
		s.t.Fatal(err)
	}
	slot := "/usr/lib/hostler-agent/versions/" + version
	s.root("mkdir", slot)
	s.put(slot+"/hostler-agent", raw, 0o755)
	s.root("ln", "-sfn", "versions/"+version, "/usr/lib/hostler-agent/current")
}

// says checks the version that a node reports.
func (s *site) says(version string) {
	s.t.Helper()
	if res := s.must("node.heartbeat_check", map[string]any{}); !strings.Contains(string(res.Result), version) {
		s.t.Errorf("the node says %s, want %s", res.Result, version)
	}
}

// reported is the node's version as the broker knows it.
func (s *site) reported() string {
	s.t.Helper()
	var agent struct {
		Version string `json:"reported_agent_version"`
	}
	s.json(&agent, "node", "agent-lifecycle", node)
	return agent.Version
}

// registry lets the guest reach a registry of this machine by the same address, and returns a
// repository of the registry.
func (s *site) registry(addr string) string {
	s.t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		err = lab.LeadTo(s.ctx, s.guest, port)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return addr + "/hostler/agent"
}
