//go:build e2e && e2e_all

package e2e

import (
	"strings"
	"testing"
)

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
