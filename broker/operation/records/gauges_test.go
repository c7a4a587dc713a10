package records

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
)

// The age of an operation that has not ended counts from its request, and once it runs from then on.
func TestOperationsThatHaveNotEndedAreCountedWithTheOldest(t *testing.T) {
	each(t, func(s *site) {
		is := func(status broker.OperationStatus, operations int, oldest time.Duration) {
			t.Helper()
			all, err := s.db.LiveOperations(s.Context())
			s.ok(err)
			if operations == 0 && len(all) == 0 {
				return
			}
			if len(all) != 1 || all[0].Status != status || all[0].Operations != operations || all[0].Oldest != oldest {
				t.Errorf("%+v, want %d %s for %s", all, operations, status, oldest)
			}
		}
		is("", 0, 0)
		s.tasks.does = func(*broker.Task) {}
		o := s.begun(s.onLab())
		s.clock.Advance(time.Minute)
		is(broker.OperationQueued, 1, time.Minute)
		s.settle()
		since := s.stands(o.ID, broker.OperationRunning, 1, "").StartedAt
		is(broker.OperationRunning, 1, s.db.Now().Sub(since))
		s.tasks.does = succeeds
		s.settle()
		s.stands(o.ID, broker.OperationSucceeded, 1, "")
		is("", 0, 0)
	})
}
