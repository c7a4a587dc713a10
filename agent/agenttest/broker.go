package agenttest

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// Broker is a broker for tests. Set its knobs before an agent connects, or under Lock.
type Broker struct {
	sync.Mutex
	Auth     *pkitest.Authority
	CertLife time.Duration
	// Clock is the broker's clock.
	Clock func() time.Time
	// Away refuses connections; present ones are cut.
	Away bool
	// Before is called before a request is handled: true means that Before has answered. Before and
	// LoseAnswer are called with the broker locked.
	Before func(w http.ResponseWriter, r *http.Request) bool
	// LoseAnswer is called after a request was handled: true cuts the connection instead of
	// answering.
	LoseAnswer func(route string) bool
	// Secrets are the secrets available to tasks, by credential type.
	Secrets map[string]string
	Minted  []wire.MintRequest // in their order
	// Gone maps the terminal sessions whose processes were killed to how.
	Gone map[string]string
	// Carries are the params of a node.resolver_config task: each enrolment queues such a task, and
	// its answer carries it. Empty: none.
	Carries string
	// Forge, if set, changes the carried task in an answer, and nothing else. It is called with the
	// broker locked.
	Forge func(*wire.CarriedTask, *Task)
	// Packages are the packages available to anyone, by digest: sha256:…
	Packages map[string][]byte
	// Denied are certificate serials.
	Denied map[string]bool

	Requests map[string]int // by route
	Enrolled int            // certificates given for a token, lost answers included
	Renewals []bool         // late or not
	// Rotations counts the new keys that were used.
	Rotations int
	Reports   []identity.Report
	// Early are the results of undelivered tasks: refusals.
	Early []wire.ResultRequest

	t      testing.TB
	server *http.Server
	ln     *memoryListener
	conns  map[net.Conn]bool
	tokens map[string]*token
	nodes  map[string]*node
	tasks  []*Task
	issued map[string]string // certificate serial → node
	// rotations are the new keys of nodes, by the requesting task.
	rotations map[string]*rotation
	wakeup    chan struct{} // closed and replaced at each change
}

type token struct {
	nodeID string
	key    string
	cert   string
	spent  bool
	task   *Task // carried by the answer
}

type node struct {
	epoch  int64
	cancel []string
}

// Task is a task at the broker.
type Task struct {
	ID       string
	NodeID   string
	Lane     taskcatalog.Lane
	Envelope string
	Payload  taskcatalog.Task
	Attempt  int
	Results  int // reported, including repeats
	Result   *wire.ResultRequest
	Evidence *taskcatalog.Evidence
	Progress []wire.ProgressRequest

	leaseUntil time.Time
	canceled   bool
	Ended      chan struct{} // closed with the first result
}

// New starts a broker whose time begins at now. The broker is closed with the test.
func New(t testing.TB, now func() time.Time) *Broker {
	b := &Broker{
		Auth: pkitest.NewAt(t, now()), CertLife: 24 * time.Hour, Clock: now, Denied: map[string]bool{},
		Requests: map[string]int{}, t: t, ln: newMemoryListener(), conns: map[net.Conn]bool{},
		tokens: map[string]*token{}, nodes: map[string]*node{}, issued: map[string]string{}, rotations: map[string]*rotation{},
		Gone: map[string]string{}, wakeup: make(chan struct{}),
	}
	b.server = &http.Server{
		Handler: b.routes(),
		TLSConfig: pki.ServerConfig(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &b.Auth.Server, nil }, b.Auth.Roots(),
			b.verify),
		ConnState: b.connState,
	}
	go func() { _ = b.server.ServeTLS(b.ln, "", "") }()
	t.Cleanup(func() { _ = b.server.Close() })
	return b
}

// URL is the broker's address for agents, by Dial or by Listen.
func (b *Broker) URL() string { return "https://localhost:7441" }

// Listen also serves on loopback and returns this URL.
func (b *Broker) Listen() string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	go func() { _ = b.server.ServeTLS(ln, "", "") }()
	return "https://" + ln.Addr().String()
}

// Dial connects in memory, as the Dial of an agent.
func (b *Broker) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	b.Lock()
	away := b.Away
	b.Unlock()
	if away {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errAway}
	}
	return b.ln.dial(ctx)
}

// GoAway cuts every connection and refuses new ones, until ComeBack.
func (b *Broker) GoAway() {
	b.Lock()
	defer b.Unlock()
	b.Away = true
	for c := range b.conns {
		_ = c.Close()
	}
}

// ComeBack ends GoAway.
func (b *Broker) ComeBack() {
	b.Lock()
	defer b.Unlock()
	b.Away = false
}

// Bootstrap makes a node record with a fresh token, and returns the data for the new node.
func (b *Broker) Bootstrap() identity.Bootstrap {
	return b.TokenFor(pki.NewNodeID(rand.Reader))
}

// TokenFor returns a fresh token for an existing node.
func (b *Broker) TokenFor(nodeID string) identity.Bootstrap {
	tok, err := pki.NewEnrollToken(rand.Reader)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Lock()
	defer b.Unlock()
	b.tokens[pki.HashToken(tok.Reveal())] = &token{nodeID: nodeID}
	return identity.Bootstrap{Broker: b.URL(), CASHA256: b.Auth.Pin(), Token: tok, Source: "the test"}
}

// Enqueue signs a task for a node and queues it. change edits the payload first.
func (b *Broker) Enqueue(nodeID, typ, params string, change ...func(*taskcatalog.Task)) *Task {
	b.t.Helper()
	b.Lock()
	defer b.Unlock()
	return b.enqueue(nodeID, typ, params, change...)
}

func (b *Broker) enqueue(nodeID, typ, params string, change ...func(*taskcatalog.Task)) *Task {
	b.t.Helper()
	t, err := taskcatalog.Latest(typ)
	if err != nil {
		b.t.Fatal(err)
	}
	nonce := make([]byte, 32)
	_, _ = rand.Read(nonce)
	now := b.Clock().UTC()
	epoch := int64(1)
	if n := b.nodes[nodeID]; n != nil {
		epoch = n.epoch
	}
	task := taskcatalog.Task{
		TaskID: "t-" + strconv.Itoa(len(b.tasks)+1), NodeID: nodeID, NodeEpoch: epoch, Type: typ, Version: t.Version,
		Params: json.RawMessage(params), Nonce: base64.RawURLEncoding.EncodeToString(nonce),
		IssuedAt: now, NotAfter: now.Add(t.Class.StartWindow()), CorrelationID: "c-1",
	}
	for _, f := range change {
		f(&task)
	}
	payload, err := taskcatalog.Encode(task)
	if err != nil {
		b.t.Fatal(err)
	}
	env, err := pki.Sign(pki.PayloadTask, payload, b.Auth.Task)
	if err != nil {
		b.t.Fatal(err)
	}
	q := &Task{ID: task.TaskID, NodeID: nodeID, Lane: t.Lane, Envelope: string(env), Payload: task, Ended: make(chan struct{})}
	b.tasks = append(b.tasks, q)
	b.changed()
	return q
}

// Find returns a task by its id; nil: none.
func (b *Broker) Find(id string) *Task {
	b.Lock()
	defer b.Unlock()
	for _, q := range b.tasks {
		if q.ID == id {
			return q
		}
	}
	return nil
}

// Requeue delivers a task again, as after an expired lease.
func (b *Broker) Requeue(q *Task) {
	b.Lock()
	defer b.Unlock()
	q.leaseUntil = time.Time{}
	b.changed()
}

// Forget makes the broker deliver an ended task again, like a broker restored from a backup.
func (b *Broker) Forget(q *Task) {
	b.Lock()
	defer b.Unlock()
	q.Result, q.leaseUntil, q.Ended = nil, time.Time{}, make(chan struct{})
	b.changed()
}

// Cancel asks the node to stop a task.
func (b *Broker) Cancel(q *Task) {
	b.Lock()
	defer b.Unlock()
	q.canceled = true
	b.nodes[q.NodeID].cancel = append(b.nodes[q.NodeID].cancel, q.ID)
	b.changed()
}

// Wait returns a task's first result, and fails the test after d.
func (b *Broker) Wait(q *Task, d time.Duration) wire.ResultRequest {
	b.t.Helper()
	select {
	case <-q.Ended:
	case <-time.After(d):
		b.t.Fatalf("task %s has no result after %s", q.ID, d)
	}
	b.Lock()
	defer b.Unlock()
	return *q.Result
}

// Count returns how often a route was asked.
func (b *Broker) Count(route string) int {
	b.Lock()
	defer b.Unlock()
	return b.Requests[route]
}

func (b *Broker) changed() {
	close(b.wakeup)
	b.wakeup = make(chan struct{})
}

// take leases the due tasks of a node.
func (b *Broker) take(nodeID string, lanes []taskcatalog.Lane) wire.WaitReply {
	var reply wire.WaitReply
	if b.Away {
		return reply // a poll on a closed connection may still wait here
	}
	now, exclusive := b.Clock(), false
	for _, q := range b.tasks {
		exclusive = exclusive || q.NodeID == nodeID && q.Lane == taskcatalog.LaneExclusive && q.Result == nil && now.Before(q.leaseUntil)
	}
	for _, q := range b.tasks {
		if q.NodeID != nodeID || q.Result != nil || q.canceled || now.Before(q.leaseUntil) || !slices.Contains(lanes, q.Lane) ||
			q.Lane == taskcatalog.LaneExclusive && exclusive {
			continue
		}
		exclusive = exclusive || q.Lane == taskcatalog.LaneExclusive
		q.Attempt++
		q.leaseUntil = now.Add(wire.LeaseTime)
		reply.Tasks = append(reply.Tasks, wire.Delivery{TaskID: q.ID, Attempt: q.Attempt, LeaseUntil: q.leaseUntil, Envelope: q.Envelope})
	}
	if n := b.nodes[nodeID]; n != nil {
		reply.Cancel, n.cancel = n.cancel, nil
	}
	return reply
}

// nextLease is when the next lease of a node runs out.
func (b *Broker) nextLease(nodeID string) time.Duration {
	next := wire.MaxWait
	for _, q := range b.tasks {
		if q.NodeID == nodeID && q.Result == nil {
			if left := q.leaseUntil.Sub(b.Clock()); left > 0 {
				next = min(next, left)
			}
		}
	}
	return next
}
