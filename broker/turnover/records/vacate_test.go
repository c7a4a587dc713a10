package records

import (
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/turnover"
)

// A storage cleanup leaves a node alone that an allocation holds for its tenant, also before the
// tenant's user is on the node.
func TestNoStorageIsEmptiedUnderAnAllocation(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		q := newQuiet(t, db, clock, "4y3h7a", func(*broker.Policy) {})
		_, err := db.CreateOrganisation(q.ctx, broker.System, broker.Organisation{ID: "org-1", Name: "acme"})
		q.ok(err)
		_, err = db.CreateProject(q.ctx, broker.System, broker.Project{ID: "p-1", OrganisationID: "org-1", Name: "p"})
		q.ok(err)
		_, err = db.SetQuota(q.ctx, broker.System, broker.Quota{ProjectID: "p-1", SKU: "h100", Nodes: 1, GPUs: 8}, "")
		q.ok(err)
		_, err = db.CreateAllocation(q.ctx, broker.System, store.NewAllocation{
			ID: "a-1", ProjectID: "p-1", AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: 1},
		})
		q.ok(err)
		n, err := db.Node(q.ctx, q.node)
		q.ok(err)
		state, locks, err := turnover.New(n, turnover.Place{Policy: broker.DefaultPolicy()}, turnover.Request{Mode: turnover.StorageCleanup, Reason: "test"})
		q.ok(err)
		r, err := q.engine.Start(q.ctx, NewStart(n, state, locks, Requester{Name: "ada"}))
		q.ok(err)
		if r = q.settle(r.ID); r.Failure == nil || r.Failure.Code != "allocation_live" {
			t.Errorf("the run is %s at %s: %+v", r.Status, r.Stage, r.Failure)
		}
		if n, err = db.Node(q.ctx, q.node); err != nil || n.Status != broker.Active || n.TurnoverOwed {
			t.Errorf("the node is %s, %v", n.Status, err)
		}
	})
}
