package records

import (
	"testing"

	"github.com/hostler/hostler/broker"
	onboardingrecords "github.com/hostler/hostler/broker/onboarding/records"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A run that is cancelled after the deployment goes back no further: ReimageNodes.Quarantine keeps
// the node from use.
func TestACancelledRedeploymentKeepsTheNodeFromUse(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		ctx := t.Context()
		ada := broker.Actor{Name: "ada"}
		n, err := db.CreateNode(ctx, ada, store.NewNode{ID: "n-abcdefghijklmnop", Hostname: "gpu-1", TokenHash: "h"})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []store.Change{
			{To: broker.Enrolling, By: broker.OwnerOnboarding},
			{To: broker.Active, By: broker.OwnerOnboarding},
			{To: broker.Draining, By: broker.OwnerTurnover, OweTurnover: true},
			{To: broker.Retired, By: broker.OwnerTurnover},
		} {
			if _, err := db.Transition(ctx, ada, n.ID, c); err != nil {
				t.Fatal(err)
			}
		}
		nodes := ReimageNodes{&onboardingrecords.Nodes{DB: db}}
		for range 2 { // its answer may be lost
			if err := nodes.Quarantine(ctx, n.ID, "the run was cancelled"); err != nil {
				t.Fatal(err)
			}
		}
		if n, err = db.Node(ctx, n.ID); err != nil || n.Status != broker.Quarantined || !n.TurnoverOwed || n.StatusReason != "the run was cancelled" {
			t.Errorf("the node is %s (%s), turnover owed %v; %v", n.Status, n.StatusReason, n.TurnoverOwed, err)
		}
	})
}
