package records

import (
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/allocation"
)

// A release whose rule asks for a reimage gets no soft reset in its place: without a machine in MAAS it fails, and goes on once the
// rule is gone.
func TestAReleaseIsNotWeakerThanARule(t *testing.T) {
	eachSite(t, 0, func(s *site) {
		s.limited(2, 1)
		rule := func(change func(*broker.Policy)) {
			s.Helper()
			_, err := s.db.UpdateProfile(s.Context(), ada, "s-dc1", "", "r", func(p *broker.Profile) error { change(&p.Policy); return nil })
			s.ok(err)
		}
		s.ask("a-1", 1)
		s.settle()
		rule(func(p *broker.Policy) { p.AcceptSystemDisk, p.ReimageTenants = true, []string{"org-1"} })
		s.release("a-1")
		s.settle()
		s.stands("a-1", broker.AllocationReleaseFailed, allocation.CodeCleaningFailed)
		if nodes, _ := s.turnovers(); len(nodes) > 0 {
			s.Errorf("soft resets of %v were begun", nodes)
		}
		rule(func(p *broker.Policy) { p.ReimageTenants = nil })
		s.release("a-1")
		s.settle()
		s.stands("a-1", broker.AllocationReleased, "")
	})
}
