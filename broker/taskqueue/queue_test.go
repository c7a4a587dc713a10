package taskqueue_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

var (
	ctx      = context.Background()
	operator = broker.Actor{Name: "ada", Role: broker.RoleOperator}
	lanes    = []taskcatalog.Lane{taskcatalog.LaneExclusive, taskcatalog.LaneConcurrent}
)

// world is a queue over a real store, with an authority that signs and nodes that answer.
type world struct {
	t         testing.TB
	db        *store.DB
	clock     *storetest.Clock
	authority *pkitest.Authority
	queue     *taskqueue.Queue
}

// SignTask makes the world the queue's signer.
func (w *world) SignTask(_ context.Context, task taskcatalog.Task, _ int64) ([]byte, string, error) {
	payload, err := taskcatalog.Encode(task)
	if err != nil {
		return nil, "", err
	}
	raw, err := pki.Sign(pki.PayloadTask, payload, w.authority.Task)
	return raw, w.authority.Task.ID, err
}

func newWorld(t testing.TB, db *store.DB, clock *storetest.Clock) *world {
	w := &world{t: t, db: db, clock: clock, authority: pkitest.NewAt(t, db.Now())}
	w.queue = taskqueue.New(taskqueue.Config{DB: db, Signer: w, Rand: rand.Reader})
	w.ok(db.SaveBundle(ctx, operator, 1, w.authority.RawBundle, "first"))
	w.ok(db.SaveBundle(ctx, operator, 2, []byte("bundle 2"), "second"))
	return w
}

func each(t *testing.T, f func(w *world)) {
	t.Helper()
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) { f(newWorld(t, db, clock)) })
}

// run is a subtest in the same world.
func (w *world) run(name string, f func(w *world)) {
	w.t.(*testing.T).Run(name, func(t *testing.T) {
		inner := *w
		inner.t = t
		f(&inner)
	})
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) refused(err error, code string) {
	w.t.Helper()
	if err == nil {
		w.t.Fatalf("it was let through, want %s", code)
	}
	if got := broker.AsError(err).Code; got != code {
		w.t.Fatalf("code %s (%v), want %s", got, err, code)
	}
}

// node is an enrolled node, as a peer of the broker.
type node struct {
	taskqueue.Peer
	pkitest.Node
}

func (w *world) node(hostname string, capabilities map[string]string) node {
	w.t.Helper()
	id := "n-" + hostname
	_, err := w.db.CreateNode(ctx, operator, store.NewNode{ID: id, Hostname: hostname, Site: "lab", Bootstrap: "command", TokenHash: "hash-" + hostname, TokenExpires: w.db.Now().Add(time.Hour)})
	w.ok(err)
	return w.enroll(id, "hash-"+hostname, 1, capabilities)
}

func (w *world) enroll(id, tokenHash string, epoch int64, capabilities map[string]string) node {
	w.t.Helper()
	member := w.authority.NewNode(w.t)
	cert := member.Cert.Leaf
	key, err := pki.PublicKeyDigest(cert.PublicKey)
	w.ok(err)
	_, err = w.db.Enroll(ctx, store.EnrollInput{
		TokenHash: tokenHash, PublicKeyDigest: key, TrustVersion: 1,
		Report: store.NodeReport{AgentVersion: "1.0", TaskTypes: taskcatalog.IDs(), Capabilities: capabilities, Digest: "d"},
		Issue: func(broker.Node, int64) (store.IssuedCert, error) {
			return store.IssuedCert{Serial: pki.Serial(cert), PEM: "pem", PublicKey: cert.RawSubjectPublicKeyInfo, NotBefore: cert.NotBefore, NotAfter: cert.NotAfter}, nil
		},
	})
	w.ok(err)
	_, err = w.db.FirstContact(ctx, id, epoch, pki.Serial(cert))
	w.ok(err)
	return node{Peer: taskqueue.Peer{NodeID: id, Epoch: epoch, Serial: pki.Serial(cert), Key: cert.PublicKey, Certified: cert.NotBefore.Add(pki.Backdate)}, Node: member}
}

// active puts a node into service without its baseline.
func (w *world) active(hostname string) node {
	w.t.Helper()
	n := w.node(hostname, nil)
	w.move(n, broker.Active, broker.OwnerOnboarding)
	return n
}

func (w *world) move(n node, to broker.NodeStatus, by broker.Owner) {
	w.t.Helper()
	_, err := w.db.Transition(ctx, operator, n.Peer.NodeID, store.Change{To: to, By: by})
	w.ok(err)
}

func (w *world) status(n node) broker.NodeStatus {
	w.t.Helper()
	got, err := w.db.Node(ctx, n.Peer.NodeID)
	w.ok(err)
	return got.Status
}

func (w *world) enqueue(n node, typ, params string) broker.Task {
	w.t.Helper()
	k, _, err := w.queue.Enqueue(ctx, operator, taskqueue.Request{NodeID: n.Peer.NodeID, Type: typ, Params: json.RawMessage(params)})
	w.ok(err)
	return k
}

// fetch polls once and returns the deliveries.
func (w *world) fetch(n node) []wire.Delivery {
	w.t.Helper()
	r, err := w.queue.Wait(ctx, n.Peer, lanes, 0)
	w.ok(err)
	return r.Tasks
}

func (w *world) task(id string) broker.Task {
	w.t.Helper()
	k, err := w.db.Task(ctx, id)
	w.ok(err)
	return k
}

// opened is a delivery as the node sees it after checking the signature.
func (w *world) opened(d wire.Delivery) *taskcatalog.Task {
	w.t.Helper()
	env, err := pki.ParseEnvelope([]byte(d.Envelope))
	w.ok(err)
	task, err := w.authority.Bundle.VerifyTask(env, w.db.Now())
	w.ok(err)
	return task
}

// evidence is an honest node's evidence for a delivery.
func (w *world) evidence(n node, d wire.Delivery, outcome taskcatalog.Outcome, result string) taskcatalog.Evidence {
	w.t.Helper()
	task := w.opened(d)
	ev := taskcatalog.Evidence{
		TaskID: task.TaskID, TaskDigest: pki.Digest([]byte(d.Envelope)), NodeID: task.NodeID, NodeEpoch: task.NodeEpoch, BootID: "boot",
		Nonce: task.Nonce, StartedAt: w.db.Now(), FinishedAt: w.db.Now(), AgentVersion: "1.0", Outcome: outcome,
	}
	if result != "" {
		ev.ResultDigest = pki.Digest([]byte(result))
	}
	return ev
}

func (w *world) answer(n node, d wire.Delivery, ev taskcatalog.Evidence, result string) wire.ResultRequest {
	w.t.Helper()
	raw, err := pki.SignEvidence(ev, n.signer())
	w.ok(err)
	return wire.ResultRequest{Attempt: d.Attempt, Outcome: ev.Outcome, Code: ev.Code, Result: json.RawMessage(result), Evidence: string(raw)}
}

// succeed reports an honest success.
func (w *world) succeed(n node, d wire.Delivery, result string) wire.ResultReply {
	w.t.Helper()
	r, err := w.queue.Result(ctx, n.Peer, d.TaskID, w.answer(n, d, w.evidence(n, d, taskcatalog.OutcomeSucceeded, result), result))
	w.ok(err)
	return r
}

const heartbeat = `{"agent_version":"1.0","boot_id":"b","uptime_seconds":1,"now":"2026-07-01T12:00:00Z","root_free_bytes":1,"drained":false}`

func TestASignedTaskComesBackWithEvidence(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k := w.enqueue(n, "node.heartbeat_check", "")
		d := w.fetch(n)
		if len(d) != 1 || d[0].TaskID != k.ID || d[0].Attempt != 1 || !d[0].LeaseUntil.Equal(w.clock.Now().Add(wire.LeaseTime)) {
			w.t.Fatalf("delivered %+v", d)
		}
		task := w.opened(d[0])
		if task.NodeID != n.Peer.NodeID || task.NodeEpoch != 1 || task.Type != "node.heartbeat_check" || !task.NotAfter.Equal(w.clock.Now().Add(10*time.Minute)) || task.CorrelationID == "" {
			w.t.Fatalf("signed %+v", task)
		}
		if r := w.succeed(n, d[0], heartbeat); r.Status != "succeeded" || r.Repeat {
			w.t.Fatalf("answered %+v", r)
		}
		got := w.task(k.ID)
		if got.Status != broker.TaskSucceeded || string(got.Result) != heartbeat || len(got.Evidence) == 0 {
			w.t.Fatalf("recorded %+v", got)
		}
	})
}

func TestEnqueueRefusesAndAudits(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		fresh, err := w.db.CreateNode(ctx, operator, store.NewNode{ID: "n-fresh", Hostname: "fresh", Bootstrap: "command"})
		w.ok(err)
		old := w.active("old")
		storetest.Report(w.t, w.db, old.Peer.NodeID, store.NodeReport{AgentVersion: "0.9", TaskTypes: []string{"node.drain@1"}, Digest: "d0"})
		quarantined := w.active("bad")
		w.move(quarantined, broker.Quarantined, broker.OwnerOperator)
		gone := w.active("gone")
		for _, s := range []broker.NodeStatus{broker.Draining, broker.Retired, broker.Removing, broker.Deleted} {
			by := map[broker.NodeStatus]broker.Owner{broker.Draining: broker.OwnerOperator, broker.Retired: broker.OwnerDrain, broker.Removing: broker.OwnerRemoval, broker.Deleted: broker.OwnerRemoval}[s]
			w.move(gone, s, by)
		}
		user := `{"allocation_id":"a-1","username":"alice","ssh_keys":["k"]}`
		disks := `{"mode":"secure","disks":[{"serial":"S","model":"M","size_bytes":1}]}`
		for _, c := range []struct {
			name string
			r    taskqueue.Request
			code string
		}{
			{"a node that is not", taskqueue.Request{NodeID: "n-none", Type: "node.drain"}, "node_not_found"},
			{"a node that never enrolled", taskqueue.Request{NodeID: fresh.ID, Type: "node.drain"}, "node_not_enrolled"},
			{"a deleted node", taskqueue.Request{NodeID: gone.Peer.NodeID, Type: "node.drain"}, "node_deleted"},
			{"a type that is not", taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.explode"}, "unknown_type"},
			{"a version that is not", taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.drain", Version: 9}, "unknown_version"},
			{"a type the agent does not know", taskqueue.Request{NodeID: old.Peer.NodeID, Type: "node.heartbeat_check"}, "task_type_unsupported"},
			{"an unknown param", taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.drain", Params: json.RawMessage(`{"shell":"rm"}`)}, "bad_params"},
			{"a param twice", taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.drain", Params: json.RawMessage(`{"resume":true,"resume":false}`)}, "bad_params"},
			{"a param out of range", taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.drain", Params: json.RawMessage(`{"grace_seconds":301}`)}, "bad_params"},
			{"a baseline from an operator", taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.validate_clean", Params: json.RawMessage(`{"baseline":null}`)}, "broker_filled_params"},
			{"a policy from an operator", taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.validate_clean", Params: json.RawMessage(`{"policy":{"known_users":["eve"]}}`)}, "broker_filled_params"},
			{"a bundle from an operator", taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.trust_update", Params: json.RawMessage(`{"bundle":"x"}`)}, "broker_filled_params"},
			{"weka without the capability", taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.storage_cleanup", Params: json.RawMessage(`{"scope":"weka"}`)}, "capability_missing"},
			{"all without the capability", taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.storage_cleanup", Params: json.RawMessage(`{"scope":"all"}`)}, "capability_missing"},
			{"a tenant on a node out of service", taskqueue.Request{NodeID: quarantined.Peer.NodeID, Type: "allocation.provision_user", Params: json.RawMessage(user)}, "node_status"},
			{"uninstall of a node in service", taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.uninstall"}, "node_status"},
			{"erasing the disks of a node in service", taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.disk_erase", Params: json.RawMessage(disks)}, "node_status"},
			{"erasing no disk", taskqueue.Request{NodeID: quarantined.Peer.NodeID, Type: "node.disk_erase", Params: json.RawMessage(`{"mode":"secure","disks":[]}`)}, "bad_params"},
			{"erasing a disk of no size", taskqueue.Request{NodeID: quarantined.Peer.NodeID, Type: "node.disk_erase", Params: json.RawMessage(`{"mode":"secure","disks":[{"serial":"S","model":"M"}]}`)}, "bad_params"},
			{"erasing in a mode that is none", taskqueue.Request{NodeID: quarantined.Peer.NodeID, Type: "node.disk_erase", Params: json.RawMessage(`{"mode":"none","disks":[{"serial":"S","model":"M","size_bytes":1}]}`)}, "bad_params"},
			{"a key that is not plain", taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.drain", IdempotencyKey: "a\x1b[2J"}, "bad_request"},
		} {
			_, _, err := w.queue.Enqueue(ctx, operator, c.r)
			if err == nil || broker.AsError(err).Code != c.code {
				w.t.Errorf("%s: %v (%s), want %s", c.name, err, broker.AsError(err).Code, c.code)
			}
			rows, err := w.db.ListAudit(ctx, store.AuditFilter{Action: "task.refused", Newest: true, Limit: 1})
			w.ok(err)
			if len(rows) != 1 || rows[0].Code != c.code || rows[0].Actor != operator.Name || rows[0].Subject != "node/"+c.r.NodeID {
				w.t.Errorf("%s: audited as %+v", c.name, rows)
			}
		}
		_, _, err = w.queue.Enqueue(ctx, broker.Actor{Name: "system"}, taskqueue.Request{NodeID: old.Peer.NodeID, Type: "node.trust_update"})
		w.refused(err, "task_type_unsupported")
		if rows, err := w.db.ListAudit(ctx, store.AuditFilter{Action: "task.refused", Actor: "system"}); err != nil || len(rows) != 0 {
			w.t.Errorf("a node that cannot do what the broker wants fills the log: %+v (%v)", rows, err)
		}
		all, _, err := w.db.ListTasks(ctx, store.TaskFilter{})
		w.ok(err)
		if len(all) != 0 {
			w.t.Fatalf("%d tasks are there although all were refused", len(all))
		}
	})
}

// Disks are erased only after the node is out of use, and by name.
func TestDisksAreErasedOnlyOfANodeOutOfService(t *testing.T) {
	each(t, func(w *world) {
		r := taskqueue.Request{Type: "node.disk_erase", Params: json.RawMessage(`{"mode":"secure","disks":[{"serial":"S","model":"M","size_bytes":1}]}`)}
		for i, path := range [][]broker.NodeStatus{{broker.Draining}, {broker.Draining, broker.Retired}, {broker.Quarantined}} {
			n := w.active(fmt.Sprintf("node-%d", i))
			for _, s := range path {
				w.move(n, s, map[broker.NodeStatus]broker.Owner{broker.Draining: broker.OwnerOperator, broker.Retired: broker.OwnerDrain, broker.Quarantined: broker.OwnerOperator}[s])
			}
			r.NodeID = n.Peer.NodeID
			if _, _, err := w.queue.Enqueue(ctx, operator, r); err != nil {
				w.t.Errorf("a node that is %s: %v", path[len(path)-1], err)
			}
		}
		for i, path := range [][]broker.NodeStatus{{}, {broker.Offline}, {broker.Draining, broker.Retired, broker.Removing}} {
			n := w.active(fmt.Sprintf("other-%d", i))
			for _, s := range path {
				w.move(n, s, map[broker.NodeStatus]broker.Owner{broker.Draining: broker.OwnerOperator, broker.Retired: broker.OwnerDrain, broker.Removing: broker.OwnerRemoval, broker.Offline: broker.OwnerHeartbeat}[s])
			}
			r.NodeID = n.Peer.NodeID
			_, _, err := w.queue.Enqueue(ctx, operator, r)
			w.refused(err, "node_status")
		}
	})
}

func TestAnIdempotencyKeyMakesARepeatHarmless(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		r := taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.drain", Params: json.RawMessage(`{"grace_seconds":5}`), IdempotencyKey: "k"}
		first, repeat, err := w.queue.Enqueue(ctx, operator, r)
		w.ok(err)
		if repeat {
			w.t.Fatal("the first was called a repeat")
		}
		// The params may be written differently, and the node may have another status by then.
		w.move(n, broker.Quarantined, broker.OwnerOperator)
		r.Params = json.RawMessage(` { "grace_seconds" : 5 } `)
		again, repeat, err := w.queue.Enqueue(ctx, operator, r)
		w.ok(err)
		if !repeat || again.ID != first.ID {
			w.t.Fatalf("again %s (repeat %v), want %s", again.ID, repeat, first.ID)
		}
		r.Params = json.RawMessage(`{"grace_seconds":6}`)
		_, _, err = w.queue.Enqueue(ctx, operator, r)
		w.refused(err, "idempotency_conflict")
		// Another node has its own keys.
		other := w.active("two")
		r.NodeID = other.Peer.NodeID
		if k, repeat, err := w.queue.Enqueue(ctx, operator, r); err != nil || repeat || k.ID == first.ID {
			w.t.Fatalf("on another node: %v, repeat %v", err, repeat)
		}
	})
}

func TestTheBrokerFillsInWhatItKeeps(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		w.ok(w.db.SaveBaseline(ctx, operator, n.Peer.NodeID, "sha256:b", baseline(w), "test"))
		w.ok(w.db.SetCleanPolicy(ctx, operator, "lab", json.RawMessage(`{"known_users":["ops"]}`), "test"))
		k := w.enqueue(n, "node.validate_clean", "")
		if string(k.Params) != "{}" {
			w.t.Fatalf("the operator's params are kept as %s", k.Params)
		}
		var p taskcatalog.ValidateCleanParams
		w.ok(json.Unmarshal(w.opened(w.fetch(n)[0]).Params, &p))
		if p.Baseline == nil || !p.Baseline.TakenAt.Equal(w.clock.Now()) || p.Policy == nil || p.Policy.KnownUsers[0] != "ops" {
			w.t.Fatalf("filled in: %+v", p)
		}
		w.enqueue(n, "node.trust_update", "")
		var u taskcatalog.TrustUpdateParams
		w.ok(json.Unmarshal(w.opened(w.fetch(n)[0]).Params, &u))
		if u.Bundle != "bundle 2" {
			w.t.Fatalf("bundle %q", u.Bundle)
		}
	})
}

func baseline(w *world) []byte {
	w.t.Helper()
	raw, err := taskcatalog.Encode(taskcatalog.Baseline{TakenAt: w.db.Now()})
	w.ok(err)
	return raw
}

func TestWekaIsCleanedWhereTheNodeCan(t *testing.T) {
	each(t, func(w *world) {
		n := w.node("one", map[string]string{"weka": "4.2"})
		w.enqueue(n, "node.storage_cleanup", `{"scope":"all"}`)
		if got := len(w.fetch(n)); got != 1 {
			w.t.Fatalf("%d delivered", got)
		}
	})
}

func TestTaskIDsSortByTime(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		last := ""
		for range 50 { // the clock stands still
			k := w.enqueue(n, "node.heartbeat_check", "")
			if k.ID <= last || strings.ToLower(k.ID) != k.ID {
				w.t.Fatalf("%s after %s", k.ID, last)
			}
			last = k.ID
		}
		for i, d := range w.fetch(n) {
			if d.TaskID > last || i > 0 && d.TaskID == last {
				w.t.Fatal(fmt.Sprint("delivered out of order: ", d.TaskID))
			}
		}
	})
}

func (n node) signer() crypto.Signer { return n.Cert.PrivateKey.(crypto.Signer) }
