package store_test

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// orders sets the order of a site.
func orders(t testing.TB, db *store.DB, s broker.Site, order broker.PlacementOrder) {
	t.Helper()
	must(db.UpdateProfile(ctx, admin, s.ID, "", "test", func(p *broker.Profile) error {
		p.Policy.PlacementOrder = string(order)
		return nil
	}))(t)
}

// cleaned gives nodes certificates, one after another.
func cleaned(t testing.TB, db *store.DB, clock *storetest.Clock, nodes ...string) {
	t.Helper()
	for _, n := range nodes {
		clock.Advance(time.Second)
		must(db.KeepCleanCertificate(ctx, admin, store.CleanCertificate{
			ID: fmt.Sprint("c-", n, clock.Now().UnixMicro()), NodeID: n, MeetsPolicy: true, IssuedAt: clock.Now(), ValidUntil: clock.Now().Add(time.Hour), File: []byte("{}"),
		}))(t)
	}
}

// The policy of a site's default profile says which of its free nodes are given first.
func TestASiteGivesItsNodesInTheOrderOfItsPolicy(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		here, there := newSite(t, db, "dc1"), newSite(t, db, "dc2")
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 6)
		stock(t, db, "h100", "dc2", 3)
		id := func(site string, i int) string { return fmt.Sprintf("n-h100-%s-%03d", site, i) }
		asked := 0
		gets := func(site string, want ...int) {
			t.Helper()
			asked++
			a := must(asksAs(db, "p-1", fmt.Sprint("a-", asked), site, len(want)))(t)
			var wanted []string
			for _, i := range want {
				wanted = append(wanted, id(site, i))
			}
			if !slices.Equal(a.NodeIDs, wanted) {
				t.Errorf("allocation %s got %v, want %v", a.ID, a.NodeIDs, wanted)
			}
			walk(t, db, a, waysTo[broker.AllocationFailed]...) // gives the nodes back
		}
		gets("dc1", 0, 1)
		gets("dc1", 0)

		orders(t, db, here, broker.LeastUsed)
		gets("dc1", 2, 3)
		gets("dc1", 4)
		gets("dc1", 5)
		gets("dc1", 1, 2, 3) // each has had one, and the first has had two
		gets("dc1", 4)
		storetest.OweTurnover(t, db, id("dc1", 5), true) // the judged pages keep the order, too
		ok(t, store.Exec(ctx, db, `UPDATE nodes SET last_contact_at = 1 WHERE id IN ('`+id("dc1", 0)+`', '`+id("dc1", 1)+`')`))
		gets("dc1", 2)
		gets("dc1", 3)

		cleaned(t, db, clock, id("dc2", 1), id("dc2", 2), id("dc2", 1))
		ok(t, db.TouchNodes(ctx, map[string]time.Time{id("dc2", 0): clock.Now(), id("dc2", 1): clock.Now(), id("dc2", 2): clock.Now()}))
		gets("dc2", 0) // another site's policy is another one
		orders(t, db, there, broker.NewestCertificate)
		gets("dc2", 1, 2)
		gets("dc2", 1)
		ok(t, store.Exec(ctx, db, `UPDATE nodes SET last_contact_at = 1 WHERE id = '`+id("dc2", 1)+`'`))
		gets("dc2", 2)
		gets("dc2", 2, 0)
	})
}

// Askers with different policies take locks in different orders, and get their nodes all the same.
func TestOrdersOfPlacementDoNotBlockEachOther(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			const nodes, askers = 20, 40
			url := storetest.URL(t, engine)
			db := storetest.Reopen(t, url, nil)
			here := newSite(t, db, "dc1")
			offered(t, db, "h100")
			stock(t, db, "h100", "dc1", nodes)
			ok(t, store.Exec(ctx, db, `UPDATE nodes SET claims = LENGTH(id) + CAST(SUBSTR(id, 13) AS INTEGER) * 7 % 5`))
			kinds := []broker.PlacementOrder{broker.ByNodeID, broker.LeastUsed, broker.NewestCertificate}
			var mu sync.Mutex
			var won []string
			var work sync.WaitGroup
			for i := range askers {
				if i%10 == 0 {
					orders(t, db, here, kinds[i/10%len(kinds)])
				}
				work.Go(func() {
					a, err := asksAs(db, projects[i%len(projects)], fmt.Sprintf("a-%03d", i), "", 2)
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						won = append(won, a.NodeIDs...)
					} else if broker.AsError(err).Code != "sku_unavailable" {
						t.Errorf("asker %d: %v", i, err)
					}
				})
			}
			work.Wait()
			slices.Sort(won)
			if distinct := len(slices.Compact(slices.Clone(won))); len(won) != nodes || distinct != nodes {
				t.Errorf("%d nodes were given, %d of them distinct; want %d", len(won), distinct, nodes)
			}
		})
	}
}

// The free nodes of a site are read in the order of an index: a site with many nodes is not sorted for one.
func TestEachOrderOfPlacementHasItsIndex(t *testing.T) {
	url := storetest.URL(t, "sqlite")
	db := storetest.Reopen(t, url, nil)
	here := newSite(t, db, "dc1")
	offered(t, db, "h100")
	stock(t, db, "h100", "dc1", 4)
	ok(t, store.Exec(ctx, db, `UPDATE nodes SET last_contact_at = 1 WHERE id = 'n-h100-dc1-000'`)) // pages are judged, too
	raw := must(sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:")))(t)
	defer func() { _ = raw.Close() }()
	for order, index := range map[broker.PlacementOrder]string{
		broker.ByNodeID: "nodes_sku", broker.LeastUsed: "nodes_claims", broker.NewestCertificate: "nodes_certified",
	} {
		orders(t, db, here, order)
		texts := store.Texts(db)
		must(asksAs(db, "p-1", "a-"+string(order), "dc1", 1))(t)
		searched := 0
		for _, text := range texts() {
			if !strings.Contains(text, "FROM nodes WHERE sku") || !strings.Contains(text, "LIMIT") || strings.Contains(text, "id IN") {
				continue
			}
			searched++
			args := make([]any, strings.Count(text, "$"))
			if plan := planOf(t, raw, text, args...); !strings.Contains(plan, index+" (sku=? AND site=?") || strings.Contains(plan, "TEMP B-TREE") {
				t.Errorf("%s: %s\n%s", order, text, plan)
			}
		}
		if searched == 0 {
			t.Errorf("%s: no search for nodes was seen", order)
		}
	}
}

// pins sets which nodes a project is given.
func pins(t testing.TB, db *store.DB, project string, policy broker.ProjectPlacement) {
	t.Helper()
	must(db.SetPlacement(ctx, admin, project, "test", func(p *broker.ProjectPlacement) error { *p = policy; return nil }))(t)
}

// A project that is pinned to labels is given only nodes that have all of them, in the order of its own policy.
func TestAProjectIsGivenNodesWithItsLabelsAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		here := newSite(t, db, "dc1")
		newSite(t, db, "dc2")
		offered(t, db, "h100")
		nodes := append(stock(t, db, "h100", "dc1", 6), stock(t, db, "h100", "dc2", 2)...)
		for i, labels := range []map[string]string{2: {"tier": "gold"}, 3: {"tier": "gold", "rack": "a"}, 4: {"tier": "silver", "rack": "a"}, 5: {"tier": "gold", "rack": "a"}} {
			if labels != nil {
				must(db.SetLabels(ctx, admin, nodes[i].ID, labels))(t)
			}
		}
		must(db.SetLabels(ctx, admin, nodes[7].ID, map[string]string{"tier": "gold", "rack": "a"}))(t)
		orders(t, db, here, broker.LeastUsed)
		pins(t, db, "p-1", broker.ProjectPlacement{NodeLabels: map[string]string{"tier": "gold", "rack": "a"}})
		if audited(t, db, "project.update", "") != 1 {
			t.Error("the change of the project is not on record")
		}
		ids := func(at ...int) (out []string) {
			for _, i := range at {
				out = append(out, nodes[i].ID)
			}
			return out
		}
		gets := func(project, id, site string, want ...int) broker.Allocation {
			t.Helper()
			a := must(asksAs(db, project, id, site, len(want)))(t)
			if !slices.Equal(a.NodeIDs, ids(want...)) {
				t.Errorf("%s got %v, want %v", id, a.NodeIDs, ids(want...))
			}
			return a
		}
		_, err := asksAs(db, "p-1", "a-0", "", 3)
		refused(t, err, "sku_unavailable")
		if strings.Contains(err.Error(), "gold") {
			t.Errorf("a tenant reads %v", err)
		}
		walk(t, db, gets("p-1", "a-1", "dc1", 3), waysTo[broker.AllocationFailed]...)
		gets("p-1", "a-2", "dc1", 5)
		pins(t, db, "p-1", broker.ProjectPlacement{Order: broker.ByNodeID, NodeLabels: map[string]string{"tier": "gold"}})
		gets("p-1", "a-3", "dc1", 2)
		must(db.SetLabels(ctx, admin, nodes[3].ID, map[string]string{"tier": ""}))(t)
		gets("p-1", "a-4", "", 7) // none is left at the first site
		_, err = asksAs(db, "p-1", "a-5", "", 1)
		refused(t, err, "sku_unavailable")
		gets("p-2", "a-6", "dc1", 0, 1, 4) // another project takes what comes first
		_, err = db.SetPlacement(ctx, admin, "p-none", "", func(*broker.ProjectPlacement) error { return nil })
		refused(t, err, "project_not_found")
	})
}

// Where few of many nodes have the labels, a page without any is not the end, and all nodes are judged for no page.
func TestTheFewNodesWithALabelAreFound(t *testing.T) {
	db := storetest.Open(t, "sqlite", nil)
	offered(t, db, "h100")
	last := stock(t, db, "h100", "dc1", 1)[0].ID
	for i := range 450 { // sort before the node of the stock
		name := fmt.Sprintf("a-%03d", i)
		must(db.CreateNode(ctx, admin, store.NewNode{
			ID: "n-" + name, Hostname: name, Site: "dc1", SKU: "h100", Bootstrap: "command", TokenHash: "hash-" + name, TokenExpires: db.Now().Add(time.Hour),
		}))(t)
	}
	ok(t, store.Exec(ctx, db, `UPDATE nodes SET status = 'active', last_contact_at = `+fmt.Sprint(db.Now().Add(time.Hour).UnixMicro())))
	must(db.SetLabels(ctx, admin, last, map[string]string{"tier": "gold"}))(t)
	pins(t, db, "p-1", broker.ProjectPlacement{NodeLabels: map[string]string{"tier": "gold"}})
	if a := must(asks(db, "a-1", "h100", 1))(t); !slices.Equal(a.NodeIDs, []string{last}) {
		t.Errorf("given was %v, want %s", a.NodeIDs, last)
	}
	_, err := asks(db, "a-2", "h100", 1)
	refused(t, err, "sku_unavailable")
}
