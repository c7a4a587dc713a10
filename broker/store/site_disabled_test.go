package store_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// become gives a site a status.
func become(db *store.DB, site string, status broker.SiteStatus) error {
	_, err := db.UpdateSite(ctx, admin, site, "new switches", func(s *broker.Site) error { s.Status = status; return nil })
	return err
}

// No node of a disabled site is placed, and each shows why. The nodes come back with the site.
func TestADisabledSiteHandsOutNoNode(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		newSite(t, db, "dc1")
		offered(t, db, "h100")
		nodes := stock(t, db, "h100", "dc1", 3)
		elsewhere := stock(t, db, "h100", "dc2", 1)[0]
		a := must(asks(db, "a-1", "h100", 1))(t)
		before := must(db.TransitionAllocation(ctx, admin, a.ID, toProvisioning))(t)
		ok(t, become(db, "dc1", broker.SiteDisabled))

		if a := must(asks(db, "a-2", "h100", 1))(t); !slices.Equal(a.NodeIDs, []string{elsewhere.ID}) {
			t.Errorf("placed on %v", a.NodeIDs)
		}
		_, err := asks(db, "a-3", "h100", 1)
		refused(t, err, "sku_unavailable")
		_, err = letsIn(db, nodes[1], "by-hand", "acme", false)
		refused(t, err, "site_disabled")
		if _, err := letsIn(db, nodes[0], before.ID, "p-1", false); err != nil {
			t.Errorf("an allocation from before is not provisioned: %v", err)
		}
		swept(t, db)
		for i, want := range []string{"allocated allocation_live site_disabled", "maintenance site_disabled", "maintenance site_disabled"} {
			if got := word(t, db, nodes[i].ID); got != want {
				t.Errorf("node %d is %q, want %q", i, got, want)
			}
		}
		for _, n := range must(db.JudgedNodes(ctx, "h100", []string{"dc1"}))(t) {
			if !slices.ContainsFunc(n.Reasons, func(r broker.Reason) bool {
				return r.Code == "site_disabled" && r.Next == "enable the site (hostler site enable dc1)"
			}) {
				t.Errorf("node %s: %+v", n.ID, n.Reasons)
			}
		}
		if closed := must(db.ClosedSites(ctx, nil))(t); len(closed) != 1 || closed[0].Site != "dc1" || closed[0].Nodes != 2 {
			t.Errorf("closed are %+v", closed)
		}
		if closed := must(db.ClosedSites(ctx, []string{"dc2"}))(t); len(closed) != 0 {
			t.Errorf("of dc2 closed are %+v", closed)
		}

		ok(t, become(db, "dc1", broker.SiteActive))
		swept(t, db)
		if got := word(t, db, nodes[1].ID); got != "available" {
			t.Errorf("the node of the enabled site is %q", got)
		}
		if a := must(asks(db, "a-4", "h100", 2))(t); a.Site != "dc1" {
			t.Errorf("placed at %s", a.Site)
		}
	})
}

// The availability of all nodes is judged at once when a site is disabled or enabled.
func TestAChangedSiteHasItsNodesJudged(t *testing.T) {
	db := storetest.Open(t, "sqlite", nil)
	newSite(t, db, "dc1")
	hints := db.Hints(t.Context())
	ok(t, become(db, "dc1", broker.SiteDisabled))
	select {
	case h := <-hints:
		if h.Kind != store.HintNode || h.ID != "" {
			t.Errorf("the hint is %+v", h)
		}
	default:
		t.Error("no hint was sent")
	}
}

// Once a disabled site has been answered, no request claims a node of the site, however far it was.
func TestOnceASiteIsDisabledNothingIsClaimed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		newSite(t, db, "dc1")
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 12)
		var work sync.WaitGroup
		begin := make(chan struct{})
		for i := range 12 {
			work.Go(func() {
				<-begin
				if _, err := asks(db, fmt.Sprint("a-", i), "h100", 1); err != nil && broker.AsError(err).Code != "sku_unavailable" {
					t.Error(err)
				}
			})
		}
		close(begin)
		ok(t, become(db, "dc1", broker.SiteDisabled))
		claimed := must(store.Left(ctx, db, "allocation_claims", "node_id"))(t)
		work.Wait()
		if after := must(store.Left(ctx, db, "allocation_claims", "node_id"))(t); len(after) != len(claimed) {
			t.Errorf("%d nodes were claimed when the site was disabled, and %d are now", len(claimed), len(after))
		}
	})
}

// A request that has found its nodes is let through before the site is disabled.
func TestADisableWaitsForAPlacementThatHasJudged(t *testing.T) {
	url := storetest.URL(t, "postgres")
	db := storetest.Reopen(t, url, nil)
	newSite(t, db, "dc1")
	offered(t, db, "h100")
	stock(t, db, "h100", "dc1", 1)
	raw := storetest.Raw(t, url)
	blocker := must(raw.BeginTx(ctx, nil))(t)
	must(blocker.Exec(`LOCK TABLE tenant_allocations IN EXCLUSIVE MODE`))(t) // the first write after the judgement
	placed, disabled := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := asks(db, "a-1", "h100", 1)
		placed <- err
	}()
	waitFor(t, raw, "the request to stand before its insert", `SELECT EXISTS (SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE datname = current_database() AND locktype = 'relation' AND NOT granted)`)
	go func() { disabled <- become(db, "dc1", broker.SiteDisabled) }()
	waitFor(t, raw, "the disable to stand before the request", `SELECT EXISTS (SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted)`)
	ok(t, blocker.Rollback())
	ok(t, <-placed)
	ok(t, <-disabled)
}
