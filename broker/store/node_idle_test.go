package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// Nodes wait for a turnover from the moment at which the last tenant has left, in that order, until
// a run or an allocation holds the node, or its use is permitted regardless.
func TestNodesThatTheirTenantsHaveLeft(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		nodes := map[string]broker.Node{}
		for _, hostname := range []string{"a", "b", "c", "unused", "claimed"} {
			n := memberAt(t, db, hostname, "dc1")
			ok(t, db.SaveBaseline(ctx, admin, n.ID, "sha256:b", []byte("{}"), "test"))
			nodes[hostname] = must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"}))(t)
		}
		nodes["siteless"] = member(t, db, "siteless")
		is := func(when string, want ...string) {
			t.Helper()
			var got []string
			for _, l := range must(db.LeftNodes(ctx))(t) {
				got = append(got, l.NodeID)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s: %q, want %q", when, got, want)
			}
		}
		lets := func(hostname, allocation string) {
			t.Helper()
			ends(t, db, must(letsIn(db, nodes[hostname], allocation, "acme", false))(t), done)
		}
		for _, hostname := range []string{"c", "b", "a", "siteless", "claimed"} {
			lets(hostname, "a-"+hostname)
		}
		lets("b", "a-b2")
		is("tenants are there")
		ok(t, store.Exec(ctx, db, `INSERT INTO allocation_claims (allocation_id, node_id, since, ended_at) VALUES ('a-9', 'n-claimed', 1, 0)`))
		for _, hostname := range []string{"b", "c", "a", "siteless", "claimed"} {
			leaves(t, db, nodes[hostname], "a-"+hostname)
			clock.Advance(time.Second)
		}
		is("one tenant of two is left", "n-c", "n-a")
		leaves(t, db, nodes["b"], "a-b2")
		is("all have left", "n-c", "n-a", "n-b")
		if at := must(db.LeftNodes(ctx))(t)[2]; at.Site != "dc1" || !at.Since.Equal(clock.Now()) {
			t.Errorf("%+v", at)
		}
		takesNode(t, db, nodes["a"], "auto-a", "node.decommission/soft_reset")
		is("a run has one", "n-c", "n-b")
		if open := must(db.OpenRuns(ctx, "dc1", "auto-"))(t); open != 1 {
			t.Errorf("%d runs are open", open)
		}
		for _, other := range []string{"other-", "auto-b"} {
			if open := must(db.OpenRuns(ctx, "dc1", other))(t); open != 0 {
				t.Errorf("%d runs of %s are open", open, other)
			}
		}
		must(db.Transition(ctx, admin, "n-c", store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: "a smell"}))(t)
		is("one is quarantined", "n-b")
		storetest.OweTurnover(t, db, "n-b", true)
		is("one is owed a turnover")
		storetest.OweTurnover(t, db, "n-b", false)
		is("owed no more", "n-b")
		ok(t, store.Exec(ctx, db, `UPDATE nodes SET override_at = 9000000000000000 WHERE id = 'n-b'`))
		is("its use is permitted")
	})
}

// A node waits for a turnover when its certificate has run out, as judged last, the longest first.
func TestNodesWhoseCertificateHasRunOut(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		var nodes []broker.Node
		for _, hostname := range []string{"c", "b", "a"} {
			n := memberAt(t, db, hostname, "dc1")
			ok(t, db.SaveBaseline(ctx, admin, n.ID, "sha256:b", []byte("{}"), "test"))
			nodes = append(nodes, must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"}))(t))
			certified(t, db, n, "c-"+n.ID, "r-"+n.ID, true)
			clock.Advance(time.Second)
		}
		siteless := member(t, db, "siteless")
		certified(t, db, siteless, "c-siteless", "r-siteless", true)
		is := func(when string, want ...string) {
			t.Helper()
			for _, n := range append(nodes, siteless) {
				ok(t, db.TouchNodes(ctx, map[string]time.Time{n.ID: clock.Now()}))
			}
			swept(t, db)
			var got []string
			for _, l := range must(db.ExpiredNodes(ctx))(t) {
				got = append(got, l.NodeID)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s: %q, want %q", when, got, want)
			}
		}
		is("certified")
		clock.Advance(time.Hour - 2*time.Second)
		is("two have run out", "n-c", "n-b")
		if codes := reasons(t, db, nodes[0]); !slices.Equal(codes, []string{"certificate_expired"}) {
			t.Errorf("%q", codes)
		}
		clock.Advance(time.Minute)
		certified(t, db, nodes[1], "c-new", "r-new", true)
		is("one was certified again", "n-c", "n-a")
		if at := must(db.ExpiredNodes(ctx))(t)[1]; at.Site != "dc1" || !at.Since.Equal(clock.Now().Add(-59*time.Second)) {
			t.Errorf("%+v at %v", at, clock.Now())
		}
		takesNode(t, db, nodes[2], "auto-a", "node.decommission/soft_reset")
		is("a run has one", "n-c")
		alone := func(want int) {
			t.Helper()
			got := must(db.LeftAlone(ctx, []string{"dc1"}))(t)
			if len(got) != min(want, 1) || want > 0 && got[0].Nodes != want {
				t.Errorf("left alone are %+v, want %d", got, want)
			}
		}
		alone(0)
		clock.Advance(store.TurnoverWithin)
		is("for longer than a turnover may wait to begin", "n-c", "n-b")
		alone(1) // the certificate of n-b has run out a moment ago
		ok(t, store.Exec(ctx, db, `INSERT INTO allocation_claims (allocation_id, node_id, since, ended_at) VALUES ('a-9', 'n-c', 1, 0)`))
		is("an allocation has one", "n-b")
	})
}

// A free node is either a tenant's or a renewal's, however close both are.
func TestAFreeNodeIsTakenOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		offered(t, db, "h100")
		nodes := stock(t, db, "h100", "dc1", 12)
		var work sync.WaitGroup
		begin := make(chan struct{})
		for i, n := range nodes {
			work.Go(func() {
				<-begin
				if _, err := asks(db, fmt.Sprint("a-", i), "h100", 1); err != nil && broker.AsError(err).Code != "sku_unavailable" {
					t.Error(err)
				}
			})
			work.Go(func() {
				<-begin
				err := db.Insert(ctx, []chain.NewRun{{
					Record: chain.Record{ID: "auto-" + n.ID, Kind: "node.decommission/soft_reset", Site: "dc1", Status: chain.Pending, Stage: "one", State: []byte(`{}`)},
					Locks:  []string{"node/" + n.ID}, Effects: []any{broker.TakeFree{NodeID: n.ID}},
				}}, nil)
				if _, refused := errors.AsType[*chain.EffectRefused](err); err != nil && !refused {
					t.Error(err)
				}
			})
		}
		close(begin)
		work.Wait()
		both := must(store.Left(ctx, db, "allocation_claims JOIN chain_locks ON name = 'node/' || node_id", "node_id"))(t)
		if len(both) > 0 {
			t.Errorf("a tenant and a run have %v", both)
		}
	})
}
