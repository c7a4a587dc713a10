package records

import (
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/taskcatalog"
)

// letIn puts a tenant on the node.
func (q *quiet) letIn() {
	q.t.Helper()
	n, err := q.db.Node(q.ctx, q.node)
	q.ok(err)
	_, _, err = q.db.InsertTask(q.ctx, broker.System, broker.Task{
		ID: "t-in", NodeID: n.ID, NodeEpoch: n.Epoch, Type: "allocation.provision_user", Version: 1, Class: taskcatalog.ClassMutating, Lane: taskcatalog.LaneExclusive,
		Params: []byte(`{"allocation_id":"a-1","username":"u","ssh_keys":["k"],"tenant":"acme"}`), NotAfter: q.clock.Now().Add(time.Hour), Envelope: []byte("e"), EnvelopeDigest: "sha256:e", Nonce: "n",
	})
	q.ok(err)
}

// moves moves the node.
func (q *quiet) moves(by broker.Owner, to ...broker.NodeStatus) (n broker.Node) {
	q.t.Helper()
	var err error
	for _, status := range to {
		n, err = q.db.Transition(q.ctx, broker.System, q.node, store.Change{To: status, By: by, Reason: "test"})
		q.ok(err)
	}
	return n
}

// begun is a run that was begun without a check for tenants.
func (q *quiet) begun(n broker.Node) string {
	q.t.Helper()
	at, err := q.silence.Starts.Place(q.ctx, n, "")
	q.ok(err)
	state, locks, err := turnover.New(n, at, turnover.Request{Mode: turnover.FullDecommission, Reason: "drift retired_deployed", From: n.Status})
	q.ok(err)
	r, err := q.engine.Start(q.ctx, NewStart(n, state, locks, Requester{Name: "system"}))
	q.ok(err)
	return r.ID
}

// Start checks the reconciler's earlier judgement again: a node in use by then, or a paused node
// with a tenant, is not removed, and no allocation is ended. A lost answer begins nothing twice.
func TestTheReconcilerTakesNoNodeThatIsInUse(t *testing.T) {
	pause := func(q *quiet) broker.Node {
		q.moves(broker.OwnerOperator, broker.Draining)
		return q.moves(broker.OwnerDrain, broker.Retired)
	}
	for name, c := range map[string]struct {
		meets func(*quiet) (judged broker.Node)
		code  string
	}{
		"as it was judged": {pause, ""},
		"it is in use by now": {func(q *quiet) broker.Node {
			judged := pause(q)
			q.moves(broker.OwnerOperator, broker.Active)
			return judged
		}, "node_moved"},
		"a turnover is owed": {func(q *quiet) broker.Node {
			judged := pause(q)
			storetest.OweTurnover(q.t, q.db, q.node, true)
			return judged
		}, "node_moved"},
		"a tenant is on it": {func(q *quiet) broker.Node {
			q.letIn()
			return pause(q)
		}, "allocation_live"},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
				q := newQuiet(t, db, clock, "", func(*broker.Policy) {})
				judged := c.meets(q)
				for range 2 {
					id, err := q.silence.Starts.Start(q.ctx, judged, "drift-1", "drift retired_deployed")
					if c.code != "" {
						if broker.AsError(err).Code != c.code {
							t.Fatalf("%q, %v; want %s", id, err, c.code)
						}
						continue
					}
					if q.ok(err); id != "drift-1" {
						t.Fatalf("run %q", id)
					}
				}
				all, err := db.Runs(q.ctx, chain.Filter{})
				if q.ok(err); (len(all) == 1) != (c.code == "") || len(all) > 1 {
					t.Errorf("%d runs", len(all))
				}
			})
		})
	}
}

// The node came into use, or a tenant came, between the start of the run and its first stage: the
// run stops, and the node stays unchanged.
func TestADecommissionThatNobodyAskedForStopsAtANodeInUse(t *testing.T) {
	for code, comes := range map[string]func(*quiet){
		"node_moved":      func(q *quiet) { q.moves(broker.OwnerTurnover, broker.Active) },
		"allocation_live": func(*quiet) {},
	} {
		t.Run(code, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
				q := newQuiet(t, db, clock, "", func(*broker.Policy) {})
				if code == "allocation_live" {
					q.letIn() // and the run is begun without a check
				}
				q.moves(broker.OwnerOperator, broker.Draining)
				judged := q.moves(broker.OwnerDrain, broker.Retired)
				var id string
				if code == "allocation_live" {
					id = q.begun(judged)
				} else {
					var err error
					id, err = q.silence.Starts.Start(q.ctx, judged, "drift-1", "drift retired_deployed")
					q.ok(err)
				}
				comes(q)
				r := q.settle(id)
				if r.Stage != "disable_node" || r.Failure == nil || r.Failure.Code != code {
					t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
				}
				n, err := db.Node(q.ctx, q.node)
				if q.ok(err); n.TurnoverOwed || n.Status == broker.Draining {
					t.Errorf("the node is %s, owed %v", n.Status, n.TurnoverOwed)
				}
			})
		})
	}
}

// An agent moves a node all the time: a quarantine at the same moment still takes effect.
func TestAQuarantineIsNotLostToAHeartbeat(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		q := newQuiet(t, db, clock, "", func(*broker.Policy) {})
		for round := range 20 {
			if round > 0 {
				_, err := db.Transition(q.ctx, broker.System, q.node, store.Change{To: broker.Active, By: broker.OwnerOverride, Reason: "test"})
				q.ok(err)
			}
			var both sync.WaitGroup
			both.Go(func() {
				for i := range 20 {
					was, to := broker.Active, broker.Offline
					if i%2 > 0 {
						was, to = to, was
					}
					_, _ = db.Transition(q.ctx, broker.System, q.node, store.Change{From: was, To: to, By: broker.OwnerHeartbeat})
				}
			})
			var err error
			both.Go(func() { err = q.nodes.Quarantine(q.ctx, q.node, "not clean") })
			both.Wait()
			n, found := db.Node(q.ctx, q.node)
			q.ok(found)
			if err != nil || n.Status != broker.Quarantined || !n.TurnoverOwed {
				t.Fatalf("round %d: the node is %s, owed %v: %v", round, n.Status, n.TurnoverOwed, err)
			}
		}
	})
}
