package records

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/retention"
)

// A member that runs many operations has its own removed, and not the older ones of the other members.
func TestAMemberKeepsItsOperationsBesideABusyOne(t *testing.T) {
	each(t, func(s *site) {
		ran := func(by string) string {
			order := s.onLab()
			order.RequestedBy = by
			id := s.begun(order).ID
			s.settle()
			return id
		}
		quiet := ran("ada-of-p-1")
		var busy []string
		for range 4 {
			busy = append(busy, ran("eve"))
		}
		forEver := time.Duration(0)
		keeper := retention.Keeper{DB: s.db, Operations: 3, History: retention.Policy{For: &forEver}}
		s.ok(keeper.Drop(s.Context()))
		for _, id := range []string{quiet, busy[2], busy[3]} {
			s.stands(id, broker.OperationSucceeded, 1, "")
		}
		for _, id := range busy[:2] {
			_, err := s.db.Operation(s.Context(), id)
			s.refused(err, "operation_not_found")
		}
	})
}
