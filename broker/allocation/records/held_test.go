package records

import (
	"fmt"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// A node that refuses each account is given to two tenants, and then to nobody: the next request gets
// another node. An operator lets the node in again.
func TestANodeThatLetsNobodyInIsGivenToTwoTenantsAtMost(t *testing.T) {
	eachSite(t, 1, func(s *site) {
		s.shut = "n-0"
		for i := range 2 {
			id := fmt.Sprint("a-", i)
			s.ask(id, 1)
			s.settle()
			s.stands(id, broker.AllocationFailed, "node_not_ready")
			for range 5 { // until the turnover has ended
				s.settle()
			}
		}
		n, err := s.db.Node(s.Context(), "n-0")
		s.ok(err)
		h, err := s.db.Handout(s.Context(), n)
		s.ok(err)
		if all := h.Reasons("", ""); len(all) != 1 || all[0].Code != "provisioning_failing" {
			s.Errorf("against the node stand %+v", all)
		}
		_, err = s.db.CreateAllocation(s.Context(), ada, store.NewAllocation{
			ID: "a-2", ProjectID: "p-1", AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: 1}, KeyIDs: []string{"k-p-1"},
		})
		if broker.AsError(err).Code != "sku_unavailable" {
			s.Errorf("another tenant: %v", err)
		}
		s.join("n-1")
		s.ask("a-3", 1)
		s.settle()
		if a := s.stands("a-3", broker.AllocationActive, ""); a.NodeIDs[0] != "n-1" {
			s.Errorf("it is placed on %v", a.NodeIDs)
		}

		s.shut = ""
		_, err = s.db.Transition(s.Context(), ada, "n-0", store.Change{To: broker.Active, By: broker.OwnerOperator, Reason: "its agent is repaired"})
		s.ok(err)
		s.ask("a-4", 1)
		s.settle()
		s.stands("a-4", broker.AllocationActive, "")
	})
}
