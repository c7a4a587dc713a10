//go:build e2e && e2e_all

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/registry"
)

// older are the commits of the agents that the broker must still serve, newest first.
var older = []struct{ version, commit string }{
	{"0.0.9", "7e31cb6140fa06fd3e809772d96390dc9b541339"}, // this agent cannot update itself
	{"0.0.8", "2c1c7aa"},
}

// An agent of an earlier release enrols, runs tasks, and is reported as an agent that a person must
// update.
func TestTheAgentsOfTheTwoReleasesBeforeAreServed(t *testing.T) {
	for _, o := range older {
		t.Run(o.version, func(t *testing.T) {
			s := newSite(t)
			s.restore(installed)
			program, err := s.BuildAgentOf(s.ctx, o.commit, o.version)
			if err != nil {
				t.Fatal(err)
			}
			s.runFrom(o.version, program)
			s.enrol()
			s.says(o.version)
			s.provision("a-1", "alice")
			s.must("node.drain", map[string]any{"grace_seconds": 1})
			s.must("node.storage_cleanup", map[string]any{"scope": "local", "allocation_id": "a-1"})
			s.must("allocation.revoke_user", map[string]any{"allocation_id": "a-1", "username": "alice"})
			// The old agent lacks some checks: the verdict is not clean.
			got := s.must("node.validate_clean", map[string]any{})
			if found := s.evidence(got.ID).Findings; got.Verdict != "inconclusive" || len(found) > 0 {
				t.Errorf("it is %s: %+v", got.Verdict, found)
			}
			if told := s.reported(); told != o.version {
				t.Errorf("the broker shows it as %s", told)
			}
			_, err = s.Hostler(s.ctx, "task", "enqueue", node, "node.diagnostics", "--yes")
			if err == nil || !strings.Contains(err.Error(), "node.diagnostics") {
				t.Errorf("a task that it does not know: %v", err)
			}
			s.hostler("audit", "verify")
		})
	}
}

// A node with the agent of the previous release is served, and is moved to this release by hand.
func TestANodeGoesFromAnOlderAgentToThisOne(t *testing.T) {
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
	s.provision("a-1", "alice")
	s.must("allocation.revoke_user", map[string]any{"allocation_id": "a-1", "username": "alice"})
	s.says(was.version)
	if told := s.reported(); told != was.version {
		t.Errorf("the broker shows it as %s", told)
	}
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
	r.build("9.0.0", "--registry", s.registry(registry.Start(t, registry.Config{}).Addr), "--plain-http")
	if got, res := r.update("9.0.0", 30*time.Second, func() {}); got.Status != "succeeded" || res.Outcome != taskcatalog.UpdateConfirmed {
		t.Fatalf("%+v %+v", got, res)
	}
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

// reported is the node's version as the broker knows it.
func (s *site) reported() string {
	s.t.Helper()
	var agent struct {
		Version string `json:"reported_agent_version"`
	}
	s.json(&agent, "node", "agent-lifecycle", node)
	return agent.Version
}
