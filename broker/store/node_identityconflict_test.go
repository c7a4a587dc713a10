package store_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// poll is a poll of an agent as a node; it reports whether the poll shows a conflict.
func poll(t testing.TB, db *store.DB, clock *storetest.Clock, n broker.Node, instance string) bool {
	t.Helper()
	clock.Advance(time.Minute)
	_, conflict, err := db.Polled(ctx, store.Poll{NodeID: n.ID, Epoch: n.Epoch, Instance: instance, Remote: "192.0.2." + instance, Came: clock.Now()})
	ok(t, err)
	return conflict
}

// A node whose identity has two holders is not handed out on evidence signed by either holder: not
// if the other holder asked for the new key too, not if both poll, and not if the run quarantined
// the node for another reason. A rotation settles conflicts seen before it; a person settles the
// rest.
func TestNoTurnoverHandsOutANodeThatTwoHaveTheIdentityOf(t *testing.T) {
	retire := func(t testing.TB, db *store.DB, n broker.Node) {
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Retired, By: broker.OwnerTurnover}))(t)
	}
	twoPoll := func(t testing.TB, db *store.DB, clock *storetest.Clock, n broker.Node) {
		poll(t, db, clock, n, "1")
		poll(t, db, clock, n, "2")
		if !poll(t, db, clock, n, "1") {
			t.Fatal("two poll, and nobody sees it")
		}
	}
	rotated := func(t testing.TB, db *store.DB, clock *storetest.Clock, n broker.Node, key string) (old string) {
		_, old, cert := rotates(t, db, clock, n, key)
		if !must(db.RotationUsed(ctx, n.ID, n.Epoch, cert.Serial))(t) {
			t.Fatal("the new key is not in force")
		}
		return old
	}
	for name, c := range map[string]struct {
		meets   func(testing.TB, *store.DB, *storetest.Clock, broker.Node)
		settled bool
	}{
		"nobody": {func(t testing.TB, db *store.DB, clock *storetest.Clock, n broker.Node) {
			rotated(t, db, clock, n, "1")
		}, true},
		"two ask for the new key": {func(t testing.TB, db *store.DB, clock *storetest.Clock, n broker.Node) {
			task, old, cert := rotates(t, db, clock, n, "1")
			_, err := db.Rotate(ctx, task, asksFor(db, n, old, "2"))
			refused(t, err, "identity_conflict")
			must(db.RotationUsed(ctx, n.ID, n.Epoch, cert.Serial))(t)
		}, false},
		"the old key renews after it": {func(t testing.TB, db *store.DB, clock *storetest.Clock, n broker.Node) {
			old := rotated(t, db, clock, n, "1")
			clock.Advance(time.Minute)
			refused(t, db.OldKeyRenews(ctx, n.ID, old, "192.0.2.9"), "identity_conflict")
		}, false},
		"two poll after it": {func(t testing.TB, db *store.DB, clock *storetest.Clock, n broker.Node) {
			rotated(t, db, clock, n, "1")
			twoPoll(t, db, clock, n)
		}, false},
		"two poll, and it is in quarantine already": {func(t testing.TB, db *store.DB, clock *storetest.Clock, n broker.Node) {
			rotated(t, db, clock, n, "1")
			must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Quarantined, By: broker.OwnerTurnover, Reason: "a GPU is not clean"}))(t)
			twoPoll(t, db, clock, n)
		}, false},
		"two poll before it, and once more soon after": {func(t testing.TB, db *store.DB, clock *storetest.Clock, n broker.Node) {
			twoPoll(t, db, clock, n)
			rotated(t, db, clock, n, "1")
			if !poll(t, db, clock, n, "2") {
				t.Fatal("two poll, and nobody sees it")
			}
		}, false},
		"two poll before it": {func(t testing.TB, db *store.DB, clock *storetest.Clock, n broker.Node) {
			twoPoll(t, db, clock, n)
			rotated(t, db, clock, n, "1")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
				n := member(t, db, "gpu-1")
				must(db.BeginTurnover(ctx, admin, turn(n, "r-1"), "a-1"))(t)
				retire(t, db, n)
				c.meets(t, db, clock, n)
				clock.Advance(time.Minute)
				certified(t, db, n, "c-1", "r-1", true)
				end := turn(n, "r-1")
				err := db.EndTurnover(ctx, admin, end, "c-1")
				seen := must(db.IdentityConflict(ctx, n.ID))(t)
				if c.settled {
					ok(t, err)
					if !seen.IsZero() {
						t.Errorf("a conflict is told of %v", seen)
					}
					return
				}
				refused(t, err, "kept_out_by_conflict")
				if got := must(db.Node(ctx, n.ID))(t); got.Status == broker.Active || !got.TurnoverOwed {
					t.Fatalf("the node is %s, owed %v", got.Status, got.TurnoverOwed)
				}
				end.Lifts = store.Lifts{Person: true, Conflicts: seen.Add(-time.Second)}
				refused(t, db.EndTurnover(ctx, admin, end, "c-1"), "kept_out_by_conflict")
				end.Lifts = store.Lifts{Conflicts: seen}
				ok(t, db.EndTurnover(ctx, admin, end, "c-1"))
			})
		})
	}
}
