package fleet

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/taskcatalog"
)

// Site is the broker and the script of a fleet.
type Site struct {
	Broker   string // https://host:port of the agents' listener
	CASHA256 string // of the root to which the first contact is pinned
	Script   Script
	// Replicas are HOST:PORT of the agents' listeners of several brokers. Connections go to the
	// replicas in turn, as through a load balancer. Empty: all connections go to Broker.
	Replicas []string
}

// Counts holds the totals so far, and the number of nodes now in each state.
type Counts struct {
	Nodes    int64 `json:"nodes"`    // told to join
	Enrolled int64 `json:"enrolled"` // nodes that have enrolled
	Waiting  int64 `json:"waiting"`  // nodes whose poll waits at the broker

	Polls      int64 `json:"polls"` // polls answered without an error
	Handshakes int64 `json:"handshakes"`
	Resumed    int64 `json:"resumed"` // of them
	Renewals   int64 `json:"renewals"`
	Held       int64 `json:"held"`   // requests that the broker deferred with a time to retry
	Errors     int64 `json:"errors"` // requests that failed otherwise

	Accepted  int64 `json:"accepted"`  // tasks that passed every check
	Refused   int64 `json:"refused"`   // tasks that failed a check
	Ended     int64 `json:"ended"`     // tasks whose result the broker has
	Repeated  int64 `json:"repeated"`  // results that the broker had already
	Unwelcome int64 `json:"unwelcome"` // results that the broker refused
}

// tally holds the counters behind Counts.
type tally struct {
	nodes, enrolled, waiting                           atomic.Int64
	polls, handshakes, resumed, renewals, held, errors atomic.Int64
	accepted, refused, ended, repeated, unwelcome      atomic.Int64
}

// Fleet is a set of working nodes.
type Fleet struct {
	Site
	// Saw receives the events of tasks, from many goroutines; may be nil.
	Saw func(Event)

	script atomic.Pointer[Script]
	played atomic.Int64 // scripts so far
	dialed atomic.Uint32
	counts tally
	work   sync.WaitGroup
	mu     sync.Mutex
	last   error
	nodes  []*node
	boots  chan struct{} // an element for each node that is enrolling
}

// atOnce limits the concurrent enrolments: the machines of a hall do not boot in the same instant.
const atOnce = 64

// New makes a fleet without nodes.
func New(s Site) *Fleet {
	f := &Fleet{Site: s, boots: make(chan struct{}, atOnce)}
	f.Play(s.Script)
	return f
}

// Play applies another script to all tasks that begin from now on.
func (f *Fleet) Play(s Script) {
	f.script.Store(&s)
	f.played.Add(1)
}

// Event is one event of a task at its node, for a later comparison with the broker's answers.
type Event struct {
	At     time.Time `json:"at"`
	NodeID string    `json:"node_id"`
	TaskID string    `json:"task_id"`
	Type   string    `json:"type"`
	What   What      `json:"what"`
	Act    Act       `json:"act,omitempty"`
	// Outcome is the recorded outcome of a result that the broker has.
	Outcome string `json:"outcome,omitempty"`
}

// What is the kind of an event.
type What string

// The kinds of events.
const (
	Started  What = "started"  // at most once per task
	Reported What = "reported" // a result was sent, and the broker answered with the recorded result
	Lost     What = "lost"     // a result was sent, and no answer came, or no answer that accepts the result
)

// Counts returns the fleet's counts.
func (f *Fleet) Counts() Counts {
	c := &f.counts
	return Counts{
		Nodes: c.nodes.Load(), Enrolled: c.enrolled.Load(), Waiting: c.waiting.Load(),
		Polls: c.polls.Load(), Handshakes: c.handshakes.Load(), Resumed: c.resumed.Load(), Renewals: c.renewals.Load(),
		Held: c.held.Load(), Errors: c.errors.Load(), Accepted: c.accepted.Load(), Refused: c.refused.Load(),
		Ended: c.ended.Load(), Repeated: c.repeated.Load(), Unwelcome: c.unwelcome.Load(),
	}
}

// Machine is an agent's report, at enrolment, of a machine that MAAS has deployed.
type Machine struct {
	Hostname, SystemID string
	Facts              *taskcatalog.Facts
}

// Joining is a token with the machine deployed with it, if any.
type Joining struct {
	Token   string  `json:"token"`
	Machine Machine `json:"machine"`
}

// Join enrols a node with each token; the nodes work until ctx ends. Join returns at once.
func (f *Fleet) Join(ctx context.Context, tokens []string) {
	for _, token := range tokens {
		f.JoinMachine(ctx, token, Machine{})
	}
}

// JoinMachine is Join for one node on a machine.
func (f *Fleet) JoinMachine(ctx context.Context, token string, of Machine) {
	f.mu.Lock()
	n := newNode(f, len(f.nodes)+1, token)
	n.of = of
	f.nodes = append(f.nodes, n)
	f.mu.Unlock()
	f.counts.nodes.Add(1)
	f.work.Go(func() { n.live(ctx) })
}

// Cut breaks every connection once, even in the middle of a request.
func (f *Fleet) Cut() {
	f.mu.Lock()
	nodes := slices.Clone(f.nodes)
	f.mu.Unlock()
	for _, n := range nodes {
		n.cut()
	}
}

// Wait returns once every node has ended. A node ends after its context.
func (f *Fleet) Wait() { f.work.Wait() }

// LastError is the last error; nil if there was none.
func (f *Fleet) LastError() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// wrong counts a failed or deferred request.
func (f *Fleet) wrong(err error) {
	if r, ok := uplink.RefusalOf(err); ok && r.RetryAfter > 0 {
		f.counts.held.Add(1)
		return
	}
	f.counts.errors.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = err
}

func (f *Fleet) saw(e Event) {
	if f.Saw != nil {
		e.At = time.Now()
		f.Saw(e)
	}
}

// onLoopback reports whether the broker is on this machine.
func (f *Fleet) onLoopback() bool {
	return strings.HasPrefix(f.Broker, "https://127.")
}

// address is the loopback address of the i-th node.
func address(i int) *net.TCPAddr {
	return &net.TCPAddr{IP: net.IPv4(127, 1+byte(i>>16), byte(i>>8), byte(i))}
}
