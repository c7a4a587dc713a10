package store_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// Silence is counted by contact: statuses set by a guard hide no silence.
func TestSilentNodesAreCountedWhateverTheirStatusIsHeldAt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		near, far, off := memberAt(t, db, "near", "dc1"), memberAt(t, db, "far", "dc2"), memberAt(t, db, "off", "dc2")
		for _, n := range []broker.Node{near, far, off} {
			must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding}))(t)
		}
		must(db.Transition(ctx, admin, off.ID, store.Change{To: broker.Offline, By: broker.OwnerHeartbeat}))(t)
		is := func(when string, active, offline, sites int, want string) {
			t.Helper()
			if g := must(db.Gauges(ctx))(t); g.SilentActive != active || g.SilentOffline != offline || g.SilentSites != sites {
				t.Errorf("%s: %d active and %d offline nodes are silent, and %d sites", when, g.SilentActive, g.SilentOffline, g.SilentSites)
			}
			got := ""
			for _, c := range must(db.Contacts(ctx, nil))(t) {
				got += fmt.Sprintf("%s %d/%d of %d; ", c.Site, c.Active, c.Offline, c.Nodes)
			}
			if got != want {
				t.Errorf("%s: %s", when, got)
			}
		}
		clock.Advance(broker.SilentAfter)
		is("at the threshold", 0, 0, 0, "dc1 0/0 of 1; dc2 0/0 of 2; ")
		clock.Advance(time.Second)
		ok(t, db.TouchNodes(ctx, map[string]time.Time{near.ID: clock.Now()}))
		is("past it", 1, 1, 1, "dc1 0/0 of 1; dc2 1/1 of 2; ")
		if got := must(db.Contacts(ctx, []string{"dc1"}))(t); len(got) != 1 || got[0].Site != "dc1" {
			t.Errorf("of dc1: %+v", got)
		}
		if _, err := letsIn(db, far, "a-1", "acme", false); broker.AsError(err).Code != "node_silent" {
			t.Errorf("an active node that is silent takes a tenant: %v", err)
		}
		if _, err := letsIn(db, near, "a-1", "acme", false); err != nil {
			t.Errorf("one that is heard: %v", err)
		}
	})
}

// Work stopped by a guard is listed as long as something waits.
func TestWhatAGuardHoldsBackIsListedUntilNothingWaits(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		memberAt(t, db, "one", "dc1")
		held := func() (all string) {
			t.Helper()
			for _, h := range must(db.HeldBack(ctx, nil))(t) {
				all += fmt.Sprintf("%s %s %s %d (%s); ", h.What, h.Kind, h.Name, h.Left, h.Why)
			}
			return all
		}
		batch := func(id string, runs int) { // one of its runs fails, which stops the batch
			var all []chain.NewRun
			for i := range runs {
				all = append(all, chain.NewRun{Record: chain.Record{ID: fmt.Sprint(id, "-", i), Kind: "k", Site: "dc1", Batch: id, Status: chain.Pending, Stage: "a", Direction: chain.Forward, Attempt: 1, State: json.RawMessage(`{}`), DueAt: db.Now()}})
			}
			ok(t, db.Insert(ctx, all, &chain.Batch{ID: id, Kind: "k", Site: "dc1", Parallel: 1, StopAfter: 1}))
			r := must(db.Claim(ctx, chain.Claim{Owner: "me", Lease: time.Minute, Kinds: []string{"k"}}))(t)
			r.Status = chain.FailedManual
			ok(t, db.Save(ctx, chain.Change{Record: *r, Result: &chain.Result{Failed: true, Stage: "a", Class: "c"}}))
		}
		batch("b-1", 2)
		batch("b-2", 1) // nothing waits for b-2
		push(t, db, "v1")
		w, _, err := db.WantResolver(ctx, admin, selector(t, "all"), "v1", "")
		ok(t, err)
		ok(t, db.StopResolverWant(ctx, admin, w, "task t-1 failed"))
		ok(t, db.SaveLook(ctx, admin, store.ReconcileLook{Site: "dc1", LookedAt: clock.Now(), Stops: []store.ReconcileStop{{Code: "maas_unread"}}}))
		if got, want := held(), "batches k b-1 1 (1 runs in a row failed at a with c); resolver_profiles  all 1 (task t-1 failed); "; got != want {
			t.Errorf("held back is %s\nwant %s", got, want)
		}
		if got := must(db.Gauges(ctx))(t).Held; got[store.HeldBatch] != 1 || got[store.HeldProfiles] != 1 {
			t.Errorf("counted: %v", got)
		}
		if got := must(db.HeldBack(ctx, []string{"dc2"}))(t); len(got) != 0 {
			t.Errorf("of another site: %+v", got)
		}
		if told := placed(t, db, store.OutboxFilter{Types: []string{store.ProfilesStoppedEvent}}); len(told) != 1 || told[0].Subject != "resolver/v1" {
			t.Errorf("told: %+v", told)
		}
	})
}
