package store_test

import (
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

// All nodes that were asked for are claimed at one site, or none; and only nodes that may be
// handed out.
func TestAnAllocationGetsAllItsNodesOrNone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		offered(t, db, "h200")
		first := stock(t, db, "h100", "dc1", 3)
		all := slices.Concat(first, stock(t, db, "h100", "dc2", 4), stock(t, db, "h200", "dc1", 9))
		refusals := 0
		none := func(err error) {
			t.Helper()
			refusals++
			refused(t, err, "sku_unavailable")
			if got := audited(t, db, "allocation.create", "sku_unavailable"); got != refusals {
				t.Errorf("%d refusals are on record, want %d", got, refusals)
			}
			clock.Advance(time.Minute) // an equal refusal within a minute is not written
			for _, n := range all {
				ok(t, db.TouchNodes(ctx, map[string]time.Time{n.ID: clock.Now()}))
			}
		}
		_, err := asks(db, "a-0", "h100", 5) // seven are free, and no site has five
		none(err)
		_, err = asks(db, "a-0", "none", 1)
		none(err)
		if left := must(store.Left(ctx, db, "allocation_claims", "node_id"))(t); len(left) > 0 {
			t.Fatalf("a refused request holds %v", left)
		}
		a := must(asks(db, "a-1", "h100", 4))(t)
		if a.Site != "dc2" || len(a.NodeIDs) != 4 || a.Status != broker.AllocationRequested || !a.RequestedAt.Equal(clock.Now()) {
			t.Errorf("%s", asJSON(a))
		}
		_, err = asks(db, "a-1", "h100", 1)
		refused(t, err, "allocation_exists")

		if audited(t, db, "allocation.create", "allocation_exists") != 1 {
			t.Error("the refusal of an id that exists is not on record")
		}

		// Of the three of dc1 one had a tenant by hand, under the id that is asked for next, and one
		// owes a turnover.
		ends(t, db, must(letsIn(db, first[0], "a-2", "p-1", false))(t), done)
		leaves(t, db, first[0], "a-2")
		storetest.OweTurnover(t, db, first[1].ID, true)
		_, err = asks(db, "a-2", "h100", 2)
		none(err)
		freeze(t, db, "dc1")
		_, err = asks(db, "a-2", "h100", 1)
		none(err)
		_, _, err = db.Unfreeze(ctx, olga, "dc1", "", false)
		ok(t, err)
		if a := must(asks(db, "a-2", "h100", 1))(t); !slices.Equal(a.NodeIDs, []string{first[2].ID}) {
			t.Errorf("%s", asJSON(a))
		}
		clock.Advance(broker.SilentAfter + time.Second)
		_, err = asks(db, "a-3", "h200", 1)
		none(err)
		_, err = db.CreateAllocation(ctx, admin, store.NewAllocation{
			ID: "a-4", ProjectID: "p-1", AllocationRequest: broker.AllocationRequest{SKU: "h200", Nodes: 1}, EndsAt: clock.Now(),
		})
		refused(t, err, "allocation_invalid")
		if audited(t, db, "allocation.create", "allocation_invalid") != 1 {
			t.Error("the refusal of an invalid request is not on record")
		}
		if told := must(store.OutboxTypes(ctx, db))(t); len(slices.DeleteFunc(told, func(typ string) bool { return typ != "provisioning.requested" })) != 2 {
			t.Errorf("told are %v", told)
		}
	})
}

// A tenant does not fill the audit log with requests that are refused.
func TestATenantThatIsRefusedAgainAndAgainIsARowAMinute(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		ask := func(times int) []store.SealedEntry {
			for i := range times {
				_, err := asks(db, fmt.Sprint("a-", clock.Now().Unix(), i), "none", 1)
				refused(t, err, "sku_unavailable")
			}
			return must(db.ListAudit(ctx, store.AuditFilter{Action: "allocation.create", Subject: "project/p-1"}))(t)
		}
		if rows := ask(5); len(rows) != 1 {
			t.Errorf("five refusals are %d rows", len(rows))
		}
		clock.Advance(time.Minute)
		if rows := ask(2); len(rows) != 2 || !strings.Contains(rows[1].Reason, "and 4 similar refusals") {
			t.Errorf("after a minute the rows are %+v", rows)
		}
	})
}

func TestAnAllocationIsPlacedWhereItsSKUIsOffered(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		newSite(t, db, "dc2")
		s := broker.NewSKU()
		s.ID, s.Offer.Sites = "h100", []string{"dc2"}
		offers(t, db, s)
		stock(t, db, "h100", "dc1", 1)
		n := stock(t, db, "h100", "dc2", 1)[0]
		_, err := db.CreateAllocation(ctx, admin, store.NewAllocation{
			ID: "a-1", ProjectID: "p-1", AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: 1, Site: "dc1"},
		})
		refused(t, err, "sku_unavailable")
		if a := must(asks(db, "a-2", "h100", 1))(t); a.Site != "dc2" || !slices.Equal(a.NodeIDs, []string{n.ID}) {
			t.Errorf("%s", asJSON(a))
		}
		_, err = asks(db, "a-3", "h100", 1)
		refused(t, err, "sku_unavailable")

		s.ID, s.GPUVendor, s.GPUCount, s.Offer.Shape = "slices", "nvidia", 8, broker.GPUSlice
		must(db.CreateSKU(ctx, admin, s))(t)
		_, err = db.CreateAllocation(ctx, admin, store.NewAllocation{
			ID: "a-4", ProjectID: "p-1", AllocationRequest: broker.AllocationRequest{SKU: "slices", GPUs: 1},
		})
		refused(t, err, "sku_unavailable")
	})
}

// Many askers share a stock of nodes, of which the first are silent: the rest is given out to the last node that a request can use, and
// no node twice, by three brokers on PostgreSQL as by one on SQLite.
func TestManyAskersShareTheNodesExactly(t *testing.T) {
	for _, engine := range storetest.Engines {
		for _, each := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", engine, each), func(t *testing.T) {
				const nodes, askers = 50, 200
				url := storetest.URL(t, engine)
				brokers := []*store.DB{storetest.Reopen(t, url, nil)}
				if engine == "postgres" {
					brokers = append(brokers, storetest.Reopen(t, url, nil), storetest.Reopen(t, url, nil))
				}
				offered(t, brokers[0], "h100")
				stock(t, brokers[0], "h100", "dc1", nodes+30)
				ok(t, store.Exec(ctx, brokers[0], `UPDATE nodes SET last_contact_at = 1 WHERE id < 'n-h100-dc1-030'`)) // silent
				var mu sync.Mutex
				var won []string
				wins := 0
				var work sync.WaitGroup
				for i := range askers {
					work.Go(func() {
						a, err := brokers[i%len(brokers)].CreateAllocation(ctx, admin, store.NewAllocation{
							ID: fmt.Sprintf("a-%03d", i), ProjectID: projects[i%len(projects)],
							AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: each},
						})
						mu.Lock()
						defer mu.Unlock()
						if err == nil {
							wins++
							won = append(won, a.NodeIDs...)
						} else if broker.AsError(err).Code != "sku_unavailable" {
							t.Errorf("asker %d: %v", i, err)
						}
					})
				}
				work.Wait()
				slices.Sort(won)
				if distinct := len(slices.Compact(slices.Clone(won))); wins != nodes/each || len(won) != wins*each || distinct != len(won) {
					t.Errorf("%d of %d askers won %d nodes, %d of them distinct; want %d winners", wins, askers, len(won), distinct, nodes/each)
				}
				if kept, _, err := brokers[0].Allocations(ctx, store.AllocationFilter{}); err != nil || len(kept) != wins {
					t.Errorf("%d allocations are kept, %v", len(kept), err)
				}
			})
		}
	}
}

// Nodes that do not fit are judged together: their number does not add to the statements of a request.
func TestNodesThatDoNotFitAreJudgedTogether(t *testing.T) {
	db := storetest.Open(t, "sqlite", nil)
	offered(t, db, "h100")
	stock(t, db, "h100", "dc1", 40)
	cost := func(id, silentBelow string) int64 {
		ok(t, store.Exec(ctx, db, `UPDATE nodes SET last_contact_at = 1 WHERE id < '`+silentBelow+`'`))
		before := db.Statements()
		must(asks(db, id, "h100", 1))(t)
		return db.Statements() - before
	}
	few := cost("a-1", "n-h100-dc1-002")
	if many := cost("a-2", "n-h100-dc1-030"); many != few {
		t.Errorf("%d statements after 2 silent nodes, and %d after 30", few, many)
	}
}
