package nodeapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// conflicts counts the events about two holders.
func (b *testBroker) conflicts(n *testNode) int {
	b.t.Helper()
	for placed := int64(1); placed > 0; {
		placed = must(b.db.PlaceEvents(b.t.Context(), 100))(b.t)
	}
	page, _, err := b.db.Outbox(b.t.Context(), store.OutboxFilter{Types: []string{"node.identity_conflict"}, Subject: "node/" + n.id})
	must0(b.t, err)
	return len(page)
}

func TestARenewalWithTheOldKeyIsAConflict(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status broker.NodeStatus
		want   broker.NodeStatus
		do     func(b *testBroker, r *rotation, next *testNode) *answer
	}{
		{"while the new one was not heard", broker.Active, broker.Quarantined, func(_ *testBroker, r *rotation, _ *testNode) *answer {
			return r.post(r.path("/renew"), r.renewRequest())
		}},
		{"after the new one was heard", broker.Active, broker.Quarantined, func(b *testBroker, r *rotation, next *testNode) *answer {
			r.heard(next)
			eventually(b.t, "the deny list knows", func() bool { return b.deny.denied(pki.Serial(r.cert.Leaf)) })
			return r.post(r.path("/renew"), r.renewRequest())
		}},
		{"on a new connection", broker.Active, broker.Quarantined, func(b *testBroker, r *rotation, next *testNode) *answer {
			r.heard(next)
			eventually(b.t, "the deny list knows", func() bool { return b.deny.denied(pki.Serial(r.cert.Leaf)) })
			r.connect(r.cert)
			return r.post(r.path("/renew"), r.renewRequest())
		}},
		{"for another key with the same task", broker.Active, broker.Quarantined, func(b *testBroker, r *rotation, _ *testNode) *answer {
			r.next = must(pki.GenerateKey(pki.Ed25519))(b.t)
			return r.ask()
		}},
		{"of a node that is being turned over", broker.Draining, broker.Quarantined, func(_ *testBroker, r *rotation, _ *testNode) *answer {
			return r.post(r.path("/renew"), r.renewRequest())
		}},
		{"of a node that is out of service", broker.Retired, broker.Quarantined, func(_ *testBroker, r *rotation, _ *testNode) *answer {
			return r.post(r.path("/renew"), r.renewRequest())
		}},
		{"of a node that is on its way out", broker.Removing, broker.Removing, func(_ *testBroker, r *rotation, _ *testNode) *answer {
			return r.post(r.path("/renew"), r.renewRequest())
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
				b := newBrokerOn(t, db, clock)
				r := b.rotating()
				for status, by := range map[broker.NodeStatus]broker.Owner{broker.Draining: broker.OwnerOperator} {
					if tt.status != broker.Active {
						must(db.Transition(t.Context(), admin, r.id, store.Change{To: status, By: by}))(t)
					}
				}
				if tt.status == broker.Retired || tt.status == broker.Removing {
					must(db.Transition(t.Context(), admin, r.id, store.Change{To: broker.Retired, By: broker.OwnerTurnover}))(t)
				}
				if tt.status == broker.Removing {
					must(db.Transition(t.Context(), admin, r.id, store.Change{To: broker.Removing, By: broker.OwnerTurnover}))(t)
				}
				next := r.successor()
				certs := len(must(db.Certificates(t.Context(), r.id))(t))
				b.advance(time.Second)
				tt.do(b, r, next).refused(b, 403, "identity_conflict")
				if now := len(must(db.Certificates(t.Context(), r.id))(t)); now != certs {
					t.Error("another certificate was made")
				}
				got := b.node(r.testNode)
				if got.Status != tt.want || tt.want == broker.Quarantined && strings.Count(got.StatusReason, "127.0.0.1") != 2 {
					t.Errorf("the node is %s (%s), want %s and both addresses", got.Status, got.StatusReason, tt.want)
				}
				if row := b.audited("identity_conflict"); row.Action != "node.identity_conflict" {
					t.Errorf("the audit log has %s", row.Action)
				}
				if b.conflicts(r.testNode) != 1 {
					t.Errorf("%d events", b.conflicts(r.testNode))
				}
				// The node with its new key is still reached.
				next.get(next.path("/tasks/wait?lanes=nothing")).refused(b, 422, "bad_lanes")
			})
		})
	}
}

// A holder of a copy of a denied key must not be able to keep the machine out of service.
func TestAKeyThatIsOverQuarantinesOnce(t *testing.T) {
	b := newBroker(t)
	r := b.rotating()
	next := r.successor()
	r.heard(next)
	eventually(t, "the deny list knows", func() bool { return b.deny.denied(pki.Serial(r.cert.Leaf)) })
	r.post(r.path("/renew"), r.renewRequest()).refused(b, 403, "identity_conflict")
	must(b.db.Transition(t.Context(), admin, r.id, store.Change{To: broker.Active, By: broker.OwnerOverride, Reason: "looked at"}))(t)
	b.advance(2 * time.Minute)
	r.connect(r.cert)
	r.post(r.path("/renew"), r.renewRequest()).refused(b, 403, "identity_conflict")
	if got := b.node(r.testNode); got.Status != broker.Active || b.conflicts(r.testNode) != 1 {
		t.Errorf("the node is %s (%s), %d events", got.Status, got.StatusReason, b.conflicts(r.testNode))
	}
	for i := range 2 * renewBurst { // and is slowed down like every caller
		if r.post(r.path("/renew"), r.renewRequest()).status == http.StatusTooManyRequests {
			return
		} else if i == 2*renewBurst-1 {
			t.Error("a denied certificate may ask without end")
		}
	}
}

func TestTwoAgentsOfOneIdentityAreToldApart(t *testing.T) {
	id := func(c int) string { return fmt.Sprintf("%032x", c) }
	const a, b1, c1, none, late, watcher = 1, 2, 3, 0, -1, -2
	for _, tt := range []struct {
		name     string
		polls    []int // which agent polls, half a minute after the last
		conflict bool
	}{
		{"one that goes on", []int{a, a, a}, false},
		{"one that was started again", []int{a, b1, b1, b1}, false},
		{"one that is started again and again", []int{a, b1, c1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, false},
		{"one whose last poll comes late", []int{a, b1, late, b1, b1}, false},
		{"one from before ids", []int{none, none, none}, false},
		{"one that was updated, put back and updated", []int{none, a, none, none, b1, none, c1}, false},
		{"one whose update is being watched", []int{a, watcher, b1, watcher, b1, watcher, b1}, false},
		{"two", []int{a, b1, a}, true},
		{"two beside a watcher", []int{a, watcher, b1, watcher, a}, true},
		{"two, and the second hides its id", []int{a, none, none, a}, true},
		{"two, and the first is slow", []int{a, b1, b1, b1, b1, b1, a}, true},
		{"one beside one that is started again and again", []int{a, b1, c1, 4, 5, 6, 7, 8, a}, true},
		{"three", []int{a, b1, c1, a}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
				b := newBrokerOn(t, db, clock)
				r := b.rotating() // the open task makes polls end
				for i, who := range tt.polls {
					k := b.enqueue(r.testNode, "node.heartbeat_check", "")
					if who == late {
						who = a
					} else {
						b.advance(30 * time.Second)
					}
					copied := *r.testNode
					copied.header = http.Header{}
					if who == watcher {
						copied.header.Set(wire.HeaderPrefer, wire.PreferNoWait)
						if a := copied.get(copied.path("/tasks/wait?lanes=")); a.status/100 != 2 { // the task that stops the watcher may be handed out
							t.Fatalf("the watcher is answered %d %s", a.status, a.body)
						}
						must(b.queue.Cancel(t.Context(), admin, k.ID, "done"))(t)
						continue
					}
					if who != none {
						copied.header.Set(wire.HeaderInstance, id(who))
					}
					copied.get(copied.path("/tasks/wait?lanes=concurrent")).into(new(wire.WaitReply))
					must(b.queue.Cancel(t.Context(), admin, k.ID, "done"))(t)
					if got := b.node(r.testNode); (got.Status == broker.Quarantined) != (tt.conflict && i == len(tt.polls)-1) {
						t.Fatalf("after poll %d the node is %s (%s)", i+1, got.Status, got.StatusReason)
					}
				}
				want := 0
				if tt.conflict {
					want = 1
					if got := b.node(r.testNode); strings.Count(got.StatusReason, "127.0.0.1") != 2 {
						t.Errorf("the reason names not both addresses: %s", got.StatusReason)
					}
					b.audited("identity_conflict")
				}
				if got := b.conflicts(r.testNode); got != want {
					t.Errorf("%d events, want %d", got, want)
				}
			})
		})
	}
}

// Two brokers on one database see each other's observations.
func TestAgentsAreToldApartAcrossBrokers(t *testing.T) {
	t.Run("each record read by itself", func(t *testing.T) { toldApartAcrossBrokers(t, func(*API) {}) })
	t.Run("all records read together", func(t *testing.T) {
		toldApartAcrossBrokers(t, func(api *API) { api.reread(t.Context()) })
	})
}

func toldApartAcrossBrokers(t *testing.T, reread func(*API)) {
	b := newBroker(t)
	r := b.rotating()
	there := must(New(t.Context(), b.c))(t)
	poll := func(api *API, c int) {
		t.Helper()
		b.advance(recheckEvery)
		must0(t, there.readDenyList(t.Context()))
		reread(api)
		n := must(b.db.Node(t.Context(), r.id))(t)
		call := &call{r: must(http.NewRequest(http.MethodGet, "/", nil))(t), arrivedAt: b.clock.Now(), peer: &pki.Peer{
			NodeIdentity: pki.NodeIdentity{NodeID: n.ID, Epoch: n.Epoch}, Cert: r.cert.Leaf, Serial: pki.Serial(r.cert.Leaf),
		}}
		call.r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", c)
		call.r.Header.Set(wire.HeaderInstance, fmt.Sprintf("%032x", c))
		call.node = must(api.contactOf(call, polling))(t)
		must0(t, api.checkInstance(call))
	}
	poll(b.API, 1)
	poll(there, 2)
	poll(b.API, 1)
	got := b.node(r.testNode)
	if got.Status != broker.Quarantined || !strings.Contains(got.StatusReason, "192.0.2.1") || !strings.Contains(got.StatusReason, "192.0.2.2") {
		t.Errorf("the node is %s (%s)", got.Status, got.StatusReason)
	}
	for i := range 10 { // a lasting conflict is reported once an hour
		poll(there, 2)
		poll(b.API, 1)
		if b.conflicts(r.testNode) != 1 && i < 10 {
			t.Fatalf("%d events in %d minutes", b.conflicts(r.testNode), 2*i)
		}
	}
	// If the node is put back into service while both agents run, it is quarantined again.
	must(b.db.Transition(t.Context(), admin, r.id, store.Change{To: broker.Active, By: broker.OwnerOverride}))(t)
	poll(there, 2)
	if got := b.node(r.testNode); got.Status != broker.Quarantined {
		t.Errorf("the node is %s", got.Status)
	}
}

// An enrolment begins anew: the same process may be a node's agent before and after.
func TestAnEnrolmentForgetsWhoPolledBefore(t *testing.T) {
	b := newBroker(t)
	r := b.rotating()
	polled := func(epoch int64, c int) bool {
		t.Helper()
		b.advance(time.Minute)
		_, conflict, err := b.db.Polled(t.Context(), store.Poll{NodeID: r.id, Epoch: epoch, Instance: fmt.Sprintf("%032x", c), Came: b.clock.Now()})
		must0(t, err)
		return conflict
	}
	polled(1, 1)
	polled(1, 2)
	_, token := b.reissue(r.id)
	b.machine().enroll(token)
	if polled(2, 1) || polled(2, 2) {
		t.Error("what polled at the last enrolment counts for this one")
	}
	if !polled(2, 1) {
		t.Error("two of one enrolment are not told apart")
	}
	if _, _, err := b.db.Polled(t.Context(), store.Poll{NodeID: r.id, Epoch: 1, Instance: fmt.Sprintf("%032x", 9)}); broker.AsError(err).Code != "epoch_superseded" {
		t.Errorf("%v", err)
	}
}

func TestAnInstanceHasOneForm(t *testing.T) {
	b := newBroker(t)
	r := b.rotating()
	for _, said := range [][]string{
		{""},
		{"x"},
		{strings.Repeat("a", 31)},
		{strings.Repeat("a", 33)},
		{strings.Repeat("A", 32)},
		{strings.Repeat("g", 32)},
		{strings.Repeat("a", 32), strings.Repeat("a", 32)},
		{strings.Repeat("a", 31) + " b"},
	} {
		r.header = http.Header{wire.HeaderInstance: said}
		b.advance(time.Minute)
		r.get(r.path("/tasks/wait?lanes=")).refused(b, 422, "bad_instance")
	}
	r.header = http.Header{}
	if got := b.node(r.testNode); got.Status != broker.Active {
		t.Errorf("the node is %s", got.Status)
	}
}
