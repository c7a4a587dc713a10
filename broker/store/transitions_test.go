package store_test

import (
	"fmt"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// paths lead an enrolled node to each status, by owners that are not bound by the rules for
// persons.
var paths = map[broker.NodeStatus][]store.Change{
	broker.Enrolling:   {},
	broker.Active:      {{To: broker.Active, By: broker.OwnerOnboarding}},
	broker.Offline:     {{To: broker.Active, By: broker.OwnerOnboarding}, {To: broker.Offline, By: broker.OwnerHeartbeat}},
	broker.Quarantined: {{To: broker.Quarantined, By: broker.OwnerOnboarding}},
	broker.Draining:    {{To: broker.Active, By: broker.OwnerOnboarding}, {To: broker.Draining, By: broker.OwnerTurnover}},
	broker.Retired:     {{To: broker.Active, By: broker.OwnerOnboarding}, {To: broker.Draining, By: broker.OwnerTurnover}, {To: broker.Retired, By: broker.OwnerDrain}},
	broker.Removing:    {{To: broker.Active, By: broker.OwnerOnboarding}, {To: broker.Draining, By: broker.OwnerTurnover}, {To: broker.Retired, By: broker.OwnerDrain}, {To: broker.Removing, By: broker.OwnerTurnover}},
	broker.Deleted:     {{To: broker.Deleted, By: broker.OwnerUndo}},
}

// A transition missing from the table is refused by the store, for every owner: the node stays
// unchanged, nothing is announced, and the refusal is audited.
func TestEveryPairThatTheTableLacksIsRefused(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		for i, from := range broker.NodeStatuses {
			var n broker.Node
			if path, enrolled := paths[from]; enrolled {
				n = newMember(t, db, fmt.Sprintf("h%d", i))
				for _, c := range path {
					n = must(db.Transition(ctx, admin, n.ID, c))(t)
				}
			} else {
				n = newNode(t, db, fmt.Sprintf("h%d", i))
			}
			if n.Status != from {
				t.Fatalf("the node is %s, want %s", n.Status, from)
			}
			n = must(db.Node(ctx, n.ID))(t)
			refusals, events, asked := audited(t, db, "node.transition", "transition_refused"), len(must(store.OutboxTypes(ctx, db))(t)), 0
			for _, to := range broker.NodeStatuses {
				for _, by := range broker.Owners {
					if to == from || broker.Transition(n, to, by) == nil {
						continue
					}
					_, err := db.Transition(ctx, admin, n.ID, store.Change{To: to, By: by, Reason: "attack"})
					refused(t, err, "transition_refused")
					asked++
				}
			}
			if got := must(db.Node(ctx, n.ID))(t); got.Status != from || got.StatusReason != n.StatusReason || !got.UpdatedAt.Equal(n.UpdatedAt) {
				t.Errorf("%s: after %d refusals it is %s (%s)", from, asked, got.Status, got.StatusReason)
			}
			if now := len(must(store.OutboxTypes(ctx, db))(t)); now != events {
				t.Errorf("%s: %d events were told of refusals", from, now-events)
			}
			if now := audited(t, db, "node.transition", "transition_refused"); asked == 0 || now-refusals != asked {
				t.Errorf("%s: %d of %d refusals are on record", from, now-refusals, asked)
			}
		}
	})
}
