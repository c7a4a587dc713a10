package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A node that is judged in bulk has the reasons that the node has alone.
func TestNodesAreJudgedInBulkAsTheyAreAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		offered(t, db, "h200")
		nodes := stock(t, db, "h100", "dc1", 4)
		far := stock(t, db, "h100", "dc2", 1)
		stock(t, db, "h200", "dc1", 1)
		must(asks(db, "a-1", "h100", 1))(t)
		ends(t, db, must(letsIn(db, nodes[1], "a-9", "acme", true))(t), done)
		must(db.Transition(ctx, admin, nodes[2].ID, store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: "smoke"}))(t)
		clock.Advance(time.Second)

		judged := must(db.JudgedNodes(ctx, "h100", nil))(t)
		if len(judged) != 5 || judged[4].ID != far[0].ID || judged[4].Site != "dc2" || judged[0].Hostname != nodes[0].Hostname {
			t.Fatalf("judged are %+v", judged)
		}
		want := []string{"allocation_live", "allocation_live", "node_status", "", ""}
		for i, n := range judged {
			var codes []string
			for _, r := range n.Reasons {
				codes = append(codes, r.Code)
			}
			alone := reasons(t, db, must(db.Node(ctx, n.ID))(t))
			if !slices.Equal(codes, alone) || (want[i] == "") != (len(codes) == 0) || want[i] != "" && codes[0] != want[i] {
				t.Errorf("%s: in bulk %v, alone %v, want %q", n.ID, codes, alone, want[i])
			}
		}
		if judged := must(db.JudgedNodes(ctx, "h100", []string{"dc2"}))(t); len(judged) != 1 || judged[0].ID != far[0].ID {
			t.Errorf("at dc2 there are %+v", judged)
		}
	})
}
