package store_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

// leaves ends an allocation as a revoked user does.
func leaves(t testing.TB, db *store.DB, n broker.Node, allocation string) {
	t.Helper()
	k, _, err := db.InsertTask(ctx, admin, newTask(db, n, taskcatalog.LaneExclusive))
	ok(t, err)
	ends(t, db, k, done, broker.EndAllocation{AllocationID: allocation})
}

func reasons(t testing.TB, db *store.DB, n broker.Node) (codes []string) {
	t.Helper()
	h, err := db.Handout(ctx, must(db.Node(ctx, n.ID))(t))
	ok(t, err)
	for _, r := range h.Reasons("", "") {
		codes = append(codes, r.Code)
	}
	return codes
}

// The reasons shown to an operator are the reasons that refuse a tenant: no tenant gets a node that
// another tenant left, until the node was turned over or a platform admin takes responsibility.
func TestNoTenantGetsANodeThatAnotherHad(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		is := func(when string, want ...string) {
			t.Helper()
			got := reasons(t, db, n)
			if len(got) != len(want) || len(got) > 0 && got[0] != want[0] {
				t.Fatalf("%s: %v, want %v", when, got, want)
			}
		}
		is("fresh")
		ends(t, db, must(letsIn(db, n, "a-1", "acme", true))(t), done)
		is("a tenant is on it", "allocation_live")
		for _, evil := range []struct{ allocation, tenant string }{{"a-2", "evil"}, {"a-2", ""}, {"a-1", "evil"}} {
			_, err := letsIn(db, n, evil.allocation, evil.tenant, false)
			refused(t, err, "allocation_live")
		}
		ends(t, db, must(letsIn(db, n, "a-1b", "acme", false))(t), done)
		leaves(t, db, n, "a-1b")
		clock.Advance(time.Minute)
		leaves(t, db, n, "a-1")
		is("both have ended", "turnover_missing", "turnover_missing")
		_, err := letsIn(db, n, "a-2", "evil", false)
		refused(t, err, "turnover_missing")

		override := store.Change{To: broker.Active, By: broker.OwnerOverride, Reason: "a test machine"}
		clock.Advance(time.Minute)
		_, err = db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOperator})
		ok(t, err)
		is("an operator's activate is no override", "turnover_missing", "turnover_missing")
		must(db.Transition(ctx, admin, n.ID, override))(t)
		is("overridden")
		all := must(db.Occupants(ctx, n.ID))(t)
		if len(all) != 2 || !all[0].HadRoot && !all[1].HadRoot {
			t.Errorf("an override makes nothing clean, and a later certificate is of %+v", all)
		}
		ends(t, db, must(letsIn(db, n, "a-2", "evil", false))(t), done)
		is("and the next is on it", "allocation_live")
		clock.Advance(time.Minute)
		leaves(t, db, n, "a-2")
		is("an override is for what was before it", "turnover_missing")
	})
}

func TestHandingOutLooksAtFreezesAndCertificates(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n, _ := memberAt(t, db, "one", "dc1"), memberAt(t, db, "two", "dc2")
		ok(t, db.SaveBaseline(ctx, admin, n.ID, "sha256:b", []byte("{}"), "test"))
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"}))(t)
		freeze(t, db, "dc2")
		if got := reasons(t, db, n); len(got) != 0 {
			t.Fatalf("another site's freeze keeps it: %v", got)
		}
		freeze(t, db, "")
		freeze(t, db, "dc1")
		if got := reasons(t, db, n); len(got) != 2 || got[0] != "frozen" {
			t.Fatalf("%v", got)
		}
		_, err := letsIn(db, n, "a-1", "acme", false)
		refused(t, err, "frozen")
		for _, site := range []string{"", "dc1"} {
			_, _, err := db.Unfreeze(ctx, olga, site, "", false)
			ok(t, err)
		}
		certified(t, db, n, "c-1", "r-1", true)
		clock.Advance(time.Second)
		certified(t, db, n, "c-2", "r-1", false)
		if got := reasons(t, db, n); len(got) != 1 || got[0] != "certificate_falls_short" {
			t.Fatalf("%v", got)
		}
		clock.Advance(time.Second)
		certified(t, db, n, "c-3", "r-1", true)
		if got := reasons(t, db, n); len(got) != 0 {
			t.Fatalf("the newest certificate is what counts: %v", got)
		}
	})
}
