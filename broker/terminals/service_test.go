package terminals_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/terminals"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
)

var (
	ctx  = context.Background()
	ada  = broker.OperatorToken{Name: "ada", Role: broker.RolePlatformAdmin}
	size = terminals.Size{Columns: 80, Rows: 24}
)

const nodeID = "n-1"

var nopLog = zap.NewNop()

// signer signs tasks as a broker does.
type signer struct{ *pkitest.Authority }

func (s signer) SignTask(_ context.Context, task taskcatalog.Task, _ int64) ([]byte, string, error) {
	payload, err := taskcatalog.Encode(task)
	if err != nil {
		return nil, "", err
	}
	raw, err := pki.Sign(pki.PayloadTask, payload, s.Task)
	return raw, s.Task.ID, err
}

// world has a quarantined node, on a site whose policy admits admins there.
type world struct {
	*testing.T
	db    *store.DB
	clock *storetest.Clock
	queue *taskqueue.Queue
	ca    *pkitest.Authority
}

func each(t *testing.T, f func(w *world)) {
	t.Helper()
	eachWith(t, taskcatalog.IDs(), f)
}

func eachWith(t *testing.T, types []string, f func(w *world)) {
	t.Helper()
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		w := &world{T: t, db: db, clock: clock, ca: pkitest.NewAt(t, clock.Now())}
		w.queue = taskqueue.New(taskqueue.Config{DB: db, Signer: signer{w.ca}, Rand: rand.Reader})
		actor := broker.Actor{Name: ada.Name, Role: ada.Role}
		_, err := db.CreateNode(ctx, actor, store.NewNode{ID: nodeID, Hostname: "g1", Bootstrap: "command", TokenHash: "h", TokenExpires: db.Now().Add(time.Hour)})
		w.ok(err)
		_, err = db.Enroll(ctx, store.EnrollInput{
			TokenHash: "h", PublicKeyDigest: "k", TrustVersion: 1,
			Report: store.NodeReport{AgentVersion: "1.3.0", TaskTypes: types, Digest: "d"},
			Issue: func(broker.Node, int64) (store.IssuedCert, error) {
				return store.IssuedCert{Serial: "s-1", PEM: "p", PublicKey: []byte("k"), NotBefore: db.Now(), NotAfter: db.Now().Add(24 * time.Hour)}, nil
			},
		})
		w.ok(err)
		_, err = db.Transition(ctx, actor, nodeID, store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: "test"})
		w.ok(err)
		w.ok(db.CreateOperatorToken(ctx, actor, ada, "hash-ada"))
		policy := broker.DefaultTerminalPolicy()
		policy.AnyUser = true
		raw, err := taskcatalog.Encode(policy)
		w.ok(err)
		w.ok(db.SetTerminalPolicy(ctx, actor, "", raw, "test"))
		f(w)
	})
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func code(err error) string {
	var e *broker.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}

// replica is a replica of the broker with a running watch; stop ends the watch.
type replica struct {
	*world
	relay   *relay.Relay
	service *terminals.Service
	stop    func()
}

func (w *world) replica(address string) *replica {
	w.Helper()
	r := w.unwatched(address)
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.service.Run(running) }()
	r.stop = func() { stop(); <-ended }
	w.Cleanup(func() { r.stop() })
	return r
}

// unwatched is a replica whose watch does not run.
func (w *world) unwatched(address string) *replica {
	w.Helper()
	r := &replica{world: w}
	r.relay = relay.New(relay.Config{
		DB: w.db, Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &w.ca.Server, nil }, Roots: func() *x509.CertPool { return w.ca.Roots() },
		Now: w.clock.Now, Address: address, Tick: 5 * time.Millisecond, Denied: func(string) bool { return false },
	})
	r.service = terminals.New(terminals.Config{DB: w.db, Queue: w.queue, Relay: r.relay, Address: address, Now: w.clock.Now, Tick: 5 * time.Millisecond})
	w.Cleanup(r.relay.Stop)
	return r
}

func (r *replica) open() string { return r.openAs(ada) }

func (r *replica) openAs(by broker.OperatorToken) string {
	r.Helper()
	id, k, err := r.service.Open(ctx, by, terminals.Request{NodeID: nodeID, Username: "bob", Size: size, Reason: "test"})
	r.ok(err)
	if k.Secret == "" || !k.Expires.After(r.clock.Now()) {
		r.Errorf("%+v", k)
	}
	return id
}

func (r *replica) has(id string) bool { return slices.Contains(r.relay.Sessions(), id) }

func (w *world) row(id string) broker.TerminalSession {
	w.Helper()
	s, err := w.db.TerminalSession(ctx, id)
	w.ok(err)
	return s
}

// tasks returns the node's tasks of a type.
func (w *world) tasks(name string) (out []broker.Task) {
	w.Helper()
	page, _, err := w.db.ListTasks(ctx, store.TaskFilter{NodeID: nodeID, Type: name, Limit: 100})
	w.ok(err)
	return page
}

func (w *world) eventually(what string, is func() bool) {
	w.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(20 * time.Second); !is(); <-look.C {
		if time.Now().After(deadline) {
			w.Fatalf("%s: it never came to be", what)
		}
	}
}

func (w *world) closed(id, code string) {
	w.Helper()
	w.eventually("the session is closed", func() bool { return w.row(id).Status == broker.TerminalClosed })
	if s := w.row(id); s.EndCode != code {
		w.Errorf("it ended with %s, want %s", s.EndCode, code)
	}
	r, _, err := w.db.VerifyRecording(ctx, id)
	w.ok(err)
	if !r.Complete {
		w.Errorf("its recording: %+v", r)
	}
	w.eventually("the node is told", func() bool { return len(w.tasks("terminal.close")) == 1 })
}

func TestASessionIsJoinedAtAnotherReplica(t *testing.T) {
	each(t, func(w *world) {
		a, b := w.replica("a.example:7442"), w.replica("b.example:7442")
		id := a.open()
		if !a.has(id) || len(w.tasks("terminal.open")) != 1 {
			t.Fatal("it is not open")
		}
		k, err := b.service.Ticket(ctx, ada, id, size)
		w.ok(err)
		w.ok(b.service.Join(ctx, ada, id, k.Secret))
		if s := w.row(id); !b.has(id) || s.Replica != "b.example:7442" {
			t.Errorf("%+v", s)
		}
		w.eventually("the first lets go", func() bool { return !a.has(id) })
		opens := w.tasks("terminal.open")
		if len(opens) != 2 {
			t.Fatalf("%d tasks", len(opens))
		}
		relays := map[string]bool{}
		for _, k := range opens {
			var p taskcatalog.TerminalOpenParams
			w.ok(taskcatalog.DecodeStrict(k.Params, &p))
			relays[p.Relay] = p.SessionID == id && p.Username == "bob"
		}
		if !relays["a.example:7442"] || !relays["b.example:7442"] {
			t.Errorf("%v", relays)
		}
		// The first replica can take the session back.
		k, err = a.service.Ticket(ctx, ada, id, size)
		w.ok(err)
		w.ok(a.service.Join(ctx, ada, id, k.Secret))
		w.eventually("the second lets go", func() bool { return a.has(id) && !b.has(id) })
		if s := w.row(id); s.Status.Over() {
			t.Errorf("%+v", s)
		}
		// A join at the replica that already has the session sends no task.
		k, err = b.service.Ticket(ctx, ada, id, size)
		w.ok(err)
		w.ok(a.service.Join(ctx, ada, id, k.Secret))
		if n := len(w.tasks("terminal.open")); n != 3 {
			t.Errorf("%d tasks", n)
		}
		// The replica without the session can close the session.
		w.ok(b.service.Close(ctx, ada, id, "enough"))
		w.closed(id, terminals.CodeClosed)
		if err := b.service.Close(ctx, ada, id, "again"); err != nil {
			t.Error(err)
		}
		if _, err := b.service.Ticket(ctx, ada, id, size); code(err) != "terminal_session_over" {
			t.Error(err)
		}
	})
}

// The other replicas take care of the sessions of a dead replica, and leave a live replica's
// sessions alone.
func TestTheSessionsOfADeadReplica(t *testing.T) {
	each(t, func(w *world) {
		a, b := w.replica("a.example:7442"), w.replica("b.example:7442")
		never, kept, lost := a.open(), a.open(), a.open()
		for _, id := range []string{kept, lost} {
			_, err := w.db.MoveTerminalSession(ctx, broker.Actor{Name: "test"}, id, store.TerminalMove{To: broker.TerminalOpen})
			w.ok(err)
		}
		a.stop()
		a.relay.Stop() // as if killed: without Leave
		w.clock.Advance(8 * time.Second)
		k, err := b.service.Ticket(ctx, ada, kept, size)
		w.ok(err)
		if s := w.row(lost); s.Status != broker.TerminalOpen {
			t.Errorf("%+v", s)
		}
		w.clock.Advance(5 * time.Second)
		w.eventually("it is detached", func() bool { return w.row(lost).Status == broker.TerminalDetached })
		w.ok(b.service.Join(ctx, ada, kept, k.Secret))
		w.clock.Advance(2 * time.Minute)
		w.closedAmong(never, "terminal_never_came", 1)
		w.clock.Advance(13 * time.Minute)
		w.closedAmong(lost, "relay_lost", 2)
		if s := w.row(kept); s.Replica != "b.example:7442" || s.EndCode == "relay_lost" {
			t.Errorf("%+v", s)
		}
	})
}

func (w *world) closedAmong(id, code string, told int) {
	w.Helper()
	w.eventually("the session is closed", func() bool { return w.row(id).Status == broker.TerminalClosed })
	if s := w.row(id); s.EndCode != code {
		w.Errorf("it ended with %s, want %s", s.EndCode, code)
	}
	w.eventually("the node is told", func() bool { return len(w.tasks("terminal.close")) >= told })
}

// The same conditions end an orphan as any other session.
func TestAnOrphanEndsWithWhatAllowedIt(t *testing.T) {
	each(t, func(w *world) {
		a, _ := w.replica("a.example:7442"), w.replica("b.example:7442")
		id := a.open()
		a.stop()
		a.relay.Stop()
		w.ok(a.service.Leave(ctx))
		w.ok(w.db.RevokeOperatorToken(ctx, broker.Actor{Name: "eve"}, "ada", "test"))
		w.closed(id, "token_revoked")
	})
}

func TestAnAgentThatKnowsNoTerminals(t *testing.T) {
	older := slices.DeleteFunc(taskcatalog.IDs(), func(id string) bool { return id == "terminal.open@1" })
	eachWith(t, older, func(w *world) {
		_, _, err := w.replica("a.example:7442").service.Open(ctx, ada, terminals.Request{NodeID: nodeID, Username: "bob", Size: size})
		if code(err) != "task_type_unsupported" {
			t.Error(err)
		}
		all, err := w.db.Terminals(ctx, store.TerminalFilter{Limit: 10})
		w.ok(err)
		if len(all) != 0 {
			t.Errorf("a session was made all the same: %+v", all)
		}
	})
}

// A session that cannot begin is closed.
func TestASessionThatCannotBegin(t *testing.T) {
	each(t, func(w *world) {
		a, b := w.replica("a.example:7442"), w.replica("b.example:7442")
		a.relay.Stop()
		if _, _, err := a.service.Open(ctx, ada, terminals.Request{NodeID: nodeID, Username: "bob", Size: size}); code(err) != "relay_stopping" {
			t.Error(err)
		}
		all, err := w.db.Terminals(ctx, store.TerminalFilter{Limit: 10})
		w.ok(err)
		if len(all) != 1 {
			t.Fatalf("%+v", all)
		}
		a.stop()
		w.ok(a.service.Leave(ctx))
		w.clock.Advance(2 * time.Minute)
		w.eventually("it is over", func() bool { return w.row(all[0].ID).Status == broker.TerminalClosed })
		_ = b
	})
}

// Mint makes a token only for a task of the session's own node, in its present enrolment.
func TestATokenIsForTheNodesOwnSession(t *testing.T) {
	each(t, func(w *world) {
		a := w.replica("a.example:7442")
		a.open()
		task := w.tasks("terminal.open")[0]
		m, err := a.service.Mint(ctx, task, "sha256:key")
		w.ok(err)
		if m.Secret == "" || m.Expires.Sub(w.clock.Now()) > 30*time.Second || m.Opens == "" {
			t.Errorf("%+v", m)
		}
		for name, change := range map[string]func(*broker.Task){
			"another node's":  func(k *broker.Task) { k.NodeID = "n-2" },
			"one from before": func(k *broker.Task) { k.NodeEpoch-- },
			"of no session at all": func(k *broker.Task) {
				k.Params = []byte(`{"session_id":"ts-nonenone","relay":"x:1","username":"bob","max_seconds":1,"detach_seconds":1}`)
			},
		} {
			other := task
			change(&other)
			if _, err := a.service.Mint(ctx, other, "sha256:key"); code(err) != "credential_refused" && code(err) != "terminal_session_not_found" {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestANodeHasSoManySessions(t *testing.T) {
	each(t, func(w *world) {
		a := w.replica("a.example:7442")
		for range 64 {
			a.open()
		}
		if _, _, err := a.service.Open(ctx, ada, terminals.Request{NodeID: nodeID, Username: "bob", Size: size}); code(err) != "terminal_too_many" {
			t.Error(err)
		}
	})
}

// A recording is dropped after its site's retention period. The recording of a live session is
// kept.
func TestRecordingsAreDroppedWhenTheirSiteWantsIt(t *testing.T) {
	each(t, func(w *world) {
		a := w.replica("a.example:7442")
		id, live := a.open(), a.open()
		w.ok(a.service.Close(ctx, ada, id, "enough"))
		w.closed(id, terminals.CodeClosed)
		a.stop()
		keep := &terminals.Retention{DB: w.db, Log: nopLog}
		w.clock.Advance(364 * 24 * time.Hour)
		w.ok(keep.Drop(ctx))
		if r, _, err := w.db.VerifyRecording(ctx, id); err != nil || !r.Complete {
			t.Errorf("%+v %v", r, err)
		}
		w.clock.Advance(25 * time.Hour)
		w.ok(keep.Drop(ctx))
		if r, _, err := w.db.VerifyRecording(ctx, id); err != nil || r.DroppedAt.IsZero() {
			t.Errorf("%+v %v", r, err)
		}
		if last, err := w.db.LastBlock(ctx, live); err != nil || last.Seq < 0 {
			t.Errorf("that of a session that goes on is dropped: %+v %v", last, err)
		}
	})
}
