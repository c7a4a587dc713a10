package records

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/retention"
	"github.com/hostler/hostler/broker/store"
)

func TestOldOperationsGoWithTheirRuns(t *testing.T) {
	each(t, func(s *site) {
		o := s.begun(s.onLab())
		s.settle()
		s.clock.Advance(500 * 24 * time.Hour)
		old := store.History{Before: s.db.Now().Add(-400 * 24 * time.Hour), Mark: "/x"}
		_, err := s.db.DropOperations(s.Context(), old, store.HistoryPage{}, 10)
		s.ok(err)
		s.stands(o.ID, broker.OperationSucceeded, 1, "") // its run is still there
		_, err = s.db.DropRuns(s.Context(), old, store.HistoryPage{}, 10)
		s.ok(err)
		_, err = s.db.DropOperations(s.Context(), old, store.HistoryPage{}, 10)
		s.ok(err)
		_, err = s.db.Operation(s.Context(), o.ID)
		s.refused(err, "operation_not_found")
		rows, err := s.db.OperationSteps(s.Context(), o.ID, "", store.StepPlace{}, 10)
		if s.ok(err); len(rows) != 0 {
			t.Errorf("%+v", rows)
		}
	})
}

// The newest ended operations of a project stay, and all that have not ended.
func TestAProjectKeepsABoundedNumberOfOperations(t *testing.T) {
	each(t, func(s *site) {
		var ids []string
		for range 3 {
			ids = append(ids, s.begun(s.onLab()).ID)
			s.settle()
		}
		onNode := s.begun(Order{Definition: parsed(s), Node: s.node("n-2"), RequestedBy: "ada", Reason: "look"}) // the platform's
		s.settle()
		s.tasks.does = func(*broker.Task) {}
		live := s.begun(s.onLab())
		s.settle()
		forEver := time.Duration(0)
		for _, keeper := range []retention.Keeper{{}, {Operations: 2}} {
			s.stands(ids[0], broker.OperationSucceeded, 1, "")
			keeper.DB, keeper.History = s.db, retention.Policy{For: &forEver}
			s.ok(keeper.Drop(s.Context()))
		}
		_, err := s.db.Operation(s.Context(), ids[0])
		s.refused(err, "operation_not_found")
		_, err = s.db.OperationStatement(s.Context(), ids[0], 1)
		s.refused(err, "operation_statement_not_found")
		rows, err := s.db.OperationSteps(s.Context(), ids[0], "", store.StepPlace{}, 10)
		if s.ok(err); len(rows) != 0 {
			t.Errorf("%+v", rows)
		}
		for _, id := range []string{ids[1], ids[2], onNode.ID} {
			s.stands(id, broker.OperationSucceeded, 1, "")
		}
		s.stands(live.ID, broker.OperationRunning, 1, "")
		audit, err := s.db.ListAudit(s.Context(), store.AuditFilter{Action: "operation.dropped"})
		if s.ok(err); len(audit) != 1 || !strings.Contains(string(audit[0].After), `"project":"p-1"`) {
			t.Errorf("%+v", audit)
		}
	})
}
