package store_test

import (
	"slices"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A placement reads a bounded number of certificates that nobody has judged by a new policy. The other nodes count as
// not judged, until the sweep has judged them.
func TestAPlacementJudgesFewCertificates(t *testing.T) {
	eachJudging(t, func(t *testing.T, db *store.DB, _ *storetest.Clock, j *purges) {
		s := newSite(t, db, "dc1")
		offered(t, db, "h100")
		const below = store.ReadByPlacement + 20
		nodes := stock(t, db, "h100", "dc1", below+5)
		for _, n := range nodes {
			certified(t, db, n, "c-"+n.ID, "r-"+n.ID, true)
		}
		swept(t, db)
		ok(t, grade(db, s.ID, "purge"))
		ok(t, store.Exec(ctx, db, `DELETE FROM clean_certificates WHERE node_id >= '`+nodes[below+4].ID+`'`)) // never had a tenant
		j.calls.Store(0)
		if a := must(asks(db, "a-1", "h100", 1))(t); !slices.Equal(a.NodeIDs, []string{nodes[below+4].ID}) {
			t.Errorf("placed on %v", a.NodeIDs)
		}
		if n := j.calls.Load(); n == 0 || n > store.ReadByPlacement+2 {
			t.Errorf("%d certificates were read", n)
		}
		unjudged := 0
		for _, n := range must(db.JudgedNodes(ctx, "h100", nil))(t) {
			if len(n.Reasons) > 0 && n.Reasons[0].Code == "certificate_not_judged" {
				unjudged++
			}
		}
		if unjudged == 0 {
			t.Error("no node is explained as not judged")
		}
		ok(t, grade(db, s.ID, "none"))
		j.calls.Store(0)
		a := must(asks(db, "a-2", "h100", 2))(t)
		if n := j.calls.Load(); len(a.NodeIDs) != 2 || n > store.ReadByPlacement+4 {
			t.Errorf("placed on %v, %d certificates were read", a.NodeIDs, n)
		}
	})
}

// The candidates of an arranged request use up no certificate that the chosen nodes need: those are judged again with
// their locks.
func TestAnArrangedPlacementKeepsReadsForTheChosenNodes(t *testing.T) {
	eachJudging(t, func(t *testing.T, db *store.DB, _ *storetest.Clock, j *purges) {
		s := newSite(t, db, "dc1")
		offered(t, db, "h100")
		const asked = 2
		nodes := stock(t, db, "h100", "dc1", store.ReadByPlacement+2*asked+10)
		for _, n := range nodes {
			certified(t, db, n, "c-"+n.ID, "r-"+n.ID, true)
		}
		racked(t, db, nodes, "a", "b")
		swept(t, db)
		ok(t, grade(db, s.ID, "none")) // every certificate meets it, and none is judged by it yet
		j.calls.Store(0)
		a := must(arranges(db, "a-1", asked, broker.Arrangement{Spread: "rack"}))(t)
		if n := j.calls.Load(); len(a.NodeIDs) != asked || n == 0 || n > store.ReadByPlacement+2*asked {
			t.Errorf("placed on %v, %d certificates were read", a.NodeIDs, n)
		}
	})
}
