package store_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// Where the tenant had a user, the release ends with the certificate on which the node was handed
// out afterwards, whatever the clocks say.
func TestTheNodeOfATenantIsReleasedByTheCertificateThatEndedItsTurnover(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		n := stock(t, db, "h100", "dc1", 1)[0]
		ok(t, db.SaveBaseline(ctx, admin, n.ID, "sha256:b", []byte("{}"), "test"))
		a := walk(t, db, must(asks(db, "a-1", "h100", 1))(t), toProvisioning)
		ends(t, db, must(letsIn(db, n, a.ID, "p-1", false))(t), done)
		a = walk(t, db, a, toActive, toReleasing)
		clock.Advance(time.Minute)
		certified(t, db, n, "c-late", "r-0", true)
		must(db.KeepCleanCertificate(ctx, admin, store.CleanCertificate{
			ID: "c-1", RunID: "r-1", NodeID: n.ID, NodeEpoch: n.Epoch, Mode: "soft_reset", MeetsPolicy: true, Digest: "sha256:c-1",
			IssuedAt: a.ReleasingAt.Add(-time.Second), ValidUntil: clock.Now().Add(time.Hour), File: []byte("{}"),
		}))(t)
		release := func(id string) error {
			_, err := db.TransitionAllocation(ctx, admin, a.ID, store.AllocationChange{
				To: broker.AllocationReleased, By: broker.AllocationWorker, CertificateIDs: []string{id},
			})
			return err
		}
		kept := func(when string) {
			t.Helper()
			for _, id := range []string{"c-late", "c-1"} {
				if err := release(id); err == nil || broker.AsError(err).Code != "certificate_falls_short" {
					t.Fatalf("%s: released by %s: %v", when, id, err)
				}
			}
		}
		kept("the user is there")
		leaves(t, db, n, a.ID)
		kept("the node was not turned over")
		must(db.BeginTurnover(ctx, admin, turn(n, "r-1")))(t)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Retired, By: broker.OwnerTurnover}))(t)
		kept("the turnover did not end")
		ok(t, db.EndTurnover(ctx, admin, turn(n, "r-1"), "c-1"))
		refused(t, release("c-late"), "certificate_falls_short")
		storetest.OweTurnover(t, db, n.ID, true)
		refused(t, release("c-1"), "certificate_falls_short")
		storetest.OweTurnover(t, db, n.ID, false)
		ok(t, store.Exec(ctx, db, `UPDATE nodes SET epoch = epoch + 1`)) // the node enrols anew after its turnover
		ok(t, release("c-1"))
	})
}

// A node that leaves the fleet owes its turnover for ever. Its certificate ends the allocation once
// the node is deleted.
func TestANodeThatLeftTheFleetIsReleasedByItsCertificate(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		n := stock(t, db, "h100", "dc1", 1)[0]
		certified(t, db, n, "c-before", "r-0", true)
		clock.Advance(time.Second)
		a := walk(t, db, must(asks(db, "a-1", "h100", 1))(t), waysTo[broker.AllocationReleasing]...)
		storetest.OweTurnover(t, db, n.ID, true)
		clock.Advance(time.Second)
		certified(t, db, n, "c-1", "r-1", true)
		release := func(id string) error {
			_, err := db.TransitionAllocation(ctx, admin, a.ID, store.AllocationChange{
				To: broker.AllocationReleased, By: broker.AllocationWorker, CertificateIDs: []string{id},
			})
			return err
		}
		refused(t, release("c-1"), "certificate_falls_short")
		ok(t, store.Exec(ctx, db, `UPDATE nodes SET status = 'deleted'`))
		refused(t, release("c-before"), "certificate_falls_short")
		ok(t, release("c-1"))
	})
}

// An allocation without a user does not end while somebody else's user was on its node.
func TestNoAllocationIsReleasedOverAUserByHand(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		n := stock(t, db, "h100", "dc1", 1)[0]
		k := must(letsIn(db, n, "by-hand", "globex", false))(t)
		must(db.CancelTask(ctx, admin, k.ID, "no"))(t)
		a := walk(t, db, must(asks(db, "a-1", "h100", 1))(t), waysTo[broker.AllocationReleasing]...)
		clock.Advance(time.Second)
		certified(t, db, n, "c-1", "r-1", true)
		c := store.AllocationChange{To: broker.AllocationReleased, By: broker.AllocationWorker, CertificateIDs: []string{"c-1"}}
		ok(t, store.Exec(ctx, db, `UPDATE allocations SET task_id = ''`)) // the user is there after all
		_, err := db.TransitionAllocation(ctx, admin, a.ID, c)
		refused(t, err, "certificate_falls_short")
		leaves(t, db, n, "by-hand")
		_, err = db.TransitionAllocation(ctx, admin, a.ID, c)
		refused(t, err, "certificate_falls_short")
	})
}

// A turnover that takes a node by force begins the release of a project's active allocation, once and
// with all its nodes. From then on nothing is billed.
func TestATurnoverByForceReleasesTheAllocation(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		n := stock(t, db, "h100", "dc1", 2)[0]
		a := walk(t, db, must(asks(db, "a-1", "h100", 2))(t), toProvisioning)
		ends(t, db, must(letsIn(db, n, a.ID, "p-1", false))(t), done)
		walk(t, db, a, toActive)
		clock.Advance(time.Hour)
		for range 2 { // done, but the answer was lost
			if forced := must(db.BeginTurnover(ctx, admin, turn(n, "r-1"), a.ID))(t); len(forced) != 1 {
				t.Fatalf("%+v", forced)
			}
			if a = must(db.Allocation(ctx, a.ID))(t); a.Status != broker.AllocationReleasing || !a.ReleasingAt.Equal(clock.Now()) {
				t.Fatalf("the allocation is %s since %v", a.Status, a.ReleasingAt)
			}
		}
		if got := usageEvents(t, db); len(got) != 2 || audited(t, db, "allocation.transition", "") != 3 {
			t.Errorf("told %q, %d transitions are on record", got, audited(t, db, "allocation.transition", ""))
		}
	})
}

// An allocation whose user was ended by force on one of its nodes does not become active.
func TestAnAllocationWithoutOneOfItsNodesIsNotActive(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		offered(t, db, "h100")
		n := stock(t, db, "h100", "dc1", 1)[0]
		a := walk(t, db, must(asks(db, "a-1", "h100", 1))(t), toProvisioning)
		ends(t, db, must(letsIn(db, n, a.ID, "p-1", false))(t), done)
		must(db.BeginTurnover(ctx, admin, turn(n, "r-1"), a.ID))(t)
		leaves(t, db, n, a.ID)
		_, err := db.TransitionAllocation(ctx, admin, a.ID, toActive)
		refused(t, err, "node_taken")
		if got := usageEvents(t, db); len(got) != 0 {
			t.Errorf("told %q", got)
		}
		walk(t, db, a, store.AllocationChange{To: broker.AllocationFailed, By: broker.AllocationWorker, Code: "node_not_ready"})
	})
}
