package records

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// The policy narrows a plan, denies with the level that says so, and is asked again while the task runs.
func TestAPolicyNarrowsAndDeniesOperations(t *testing.T) {
	each(t, func(s *site) {
		at := broker.Place{OrganisationID: "org-1", ProjectID: "p-1"}
		set := func(at broker.Place, o broker.OperationOverlay) {
			_, err := s.db.SetOperationPolicy(s.Context(), ada, broker.OperationPolicy{Place: at, Operation: "demo.look", Overlay: o}, false, "test")
			s.ok(err)
		}
		seconds, one, no := int64(9), int64(1), false
		set(broker.Place{}, broker.OperationOverlay{TimeoutSeconds: &seconds, MaxConcurrency: &one})
		s.tasks.does = func(*broker.Task) {}
		o := s.begun(s.onLab())
		s.settle()
		if kept := s.stands(o.ID, broker.OperationRunning, 1, ""); kept.Plan.DeadlineSeconds != 9 {
			t.Errorf("the deadline is %d s", kept.Plan.DeadlineSeconds)
		}
		other := s.onLab()
		other.Allocation = s.allocated("alc-3", "p-1", 1)
		_, err := s.begin(other)
		s.refused(err, "operation_concurrency_denied")
		set(at, broker.OperationOverlay{Enabled: &no})
		s.settle()
		s.stands(o.ID, broker.OperationFailed, 1, "operation_denied")
		_, err = s.begin(other)
		s.refused(err, "operation_denied")
		if err != nil && !strings.Contains(err.Error(), "the project's policy for demo.look") {
			t.Errorf("the denial does not say which level denied: %v", err)
		}
		set(at, broker.OperationOverlay{AllowedTargetKinds: []string{"node"}})
		_, err = s.begin(other)
		s.refused(err, "target_kind_denied")
		set(at, broker.OperationOverlay{AllowedTargetKinds: []string{"allocation"}})
		s.begun(s.onLab())
		// What is bound to the end of an allocation waits for no other operation: its release would wait, too.
		other.Trigger = broker.TriggerEnd
		other.Allocation, err = s.db.TransitionAllocation(s.Context(), ada, "alc-3", store.AllocationChange{To: broker.AllocationReleasing, By: broker.AllocationAdmin})
		s.ok(err)
		s.begun(other)
	})
}
