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

// Site is where a fleet belongs.
type Site struct {
	Broker   string // https://host:port of the agents' listener
	CASHA256 string // of the root that the first contact is pinned to
	Script   Script
	// Replicas are HOST:PORT of the agents' listeners of several brokers: a connection goes to
	// one after the other, as a load balancer would have it. None: all go to Broker.
	Replicas []string
}

// Counts are what happened so far, and how many nodes are in which state now.
type Counts struct {
	Nodes    int64 `json:"nodes"`    // that were told to join
	Enrolled int64 `json:"enrolled"` // of them
	Waiting  int64 `json:"waiting"`  // whose poll has reached the broker and waits there

	Polls      int64 `json:"polls"` // that were answered well
	Handshakes int64 `json:"handshakes"`
	Resumed    int64 `json:"resumed"` // of them
	Renewals   int64 `json:"renewals"`
	Held       int64 `json:"held"`   // requests that the broker put off, with a time to come again
	Errors     int64 `json:"errors"` // requests that went wrong otherwise

	Accepted  int64 `json:"accepted"`  // tasks that passed every check
	Refused   int64 `json:"refused"`   // that did not
	Ended     int64 `json:"ended"`     // whose result the broker has
	Repeated  int64 `json:"repeated"`  // results that it had already
	Unwelcome int64 `json:"unwelcome"` // that it did not want
}

// tally counts. Its fields are those of Counts.
type tally struct {
	nodes, enrolled, waiting                           atomic.Int64
	polls, handshakes, resumed, renewals, held, errors atomic.Int64
	accepted, refused, ended, repeated, unwelcome      atomic.Int64
}

// Fleet is nodes that work.
type Fleet struct {
	Site
	// Saw is told of what happens to tasks, from many goroutines; nil: nobody is.
	Saw func(Event)

	script atomic.Pointer[Script]
	dialed atomic.Uint32
	counts tally
	work   sync.WaitGroup
	mu     sync.Mutex
	last   error
	nodes  []*node
	boots  chan struct{} // one for each node that may enrol now
}

// atOnce is how many nodes enrol at a time: a hall of machines does not boot in one instant.
const atOnce = 64

// New makes a fleet without nodes.
func New(s Site) *Fleet {
	f := &Fleet{Site: s, boots: make(chan struct{}, atOnce)}
	f.Play(s.Script)
	return f
}

// Play has the tasks that begin from now on be as another script says.
func (f *Fleet) Play(s Script) { f.script.Store(&s) }

// Event is one thing that happened to a task at its node: what to compare a broker's word
// with afterwards.
type Event struct {
	At     time.Time `json:"at"`
	NodeID string    `json:"node_id"`
	TaskID string    `json:"task_id"`
	Type   string    `json:"type"`
	What   What      `json:"what"`
	Act    Act       `json:"act,omitempty"`
	// Outcome is the recorded one, of a result that the broker has.
	Outcome string `json:"outcome,omitempty"`
}

// What happened.
type What string

// The things that happen.
const (
	Started  What = "started"  // at most once for a task
	Reported What = "reported" // a result was sent and the broker answered with the recorded one
	Lost     What = "lost"     // a result was sent and no answer came, or none that takes it
)

// Counts returns them.
func (f *Fleet) Counts() Counts {
	c := &f.counts
	return Counts{
		Nodes: c.nodes.Load(), Enrolled: c.enrolled.Load(), Waiting: c.waiting.Load(),
		Polls: c.polls.Load(), Handshakes: c.handshakes.Load(), Resumed: c.resumed.Load(), Renewals: c.renewals.Load(),
		Held: c.held.Load(), Errors: c.errors.Load(), Accepted: c.accepted.Load(), Refused: c.refused.Load(),
		Ended: c.ended.Load(), Repeated: c.repeated.Load(), Unwelcome: c.unwelcome.Load(),
	}
}

// Machine is what the agent of a machine that MAAS has deployed says of it when it enrols.
type Machine struct {
	Hostname, SystemID string
	Facts              *taskcatalog.Facts
}

// Joining is a token, and the machine that was deployed with it, if any.
type Joining struct {
	Token   string  `json:"token"`
	Machine Machine `json:"machine"`
}

// Join has a node enrol with each token, and work until ctx ends. It returns at once.
func (f *Fleet) Join(ctx context.Context, tokens []string) {
	for _, token := range tokens {
		f.JoinMachine(ctx, token, Machine{})
	}
}

// JoinMachine does so for one, on a machine.
func (f *Fleet) JoinMachine(ctx context.Context, token string, of Machine) {
	f.mu.Lock()
	n := newNode(f, len(f.nodes)+1, token)
	n.of = of
	f.nodes = append(f.nodes, n)
	f.mu.Unlock()
	f.counts.nodes.Add(1)
	f.work.Go(func() { n.live(ctx) })
}

// Cut breaks every connection once, in the middle of whatever is on its way.
func (f *Fleet) Cut() {
	f.mu.Lock()
	nodes := slices.Clone(f.nodes)
	f.mu.Unlock()
	for _, n := range nodes {
		n.cut()
	}
}

// Wait returns once every node has ended, which they do when their context has.
func (f *Fleet) Wait() { f.work.Wait() }

// LastError is what went wrong last; nil: nothing did.
func (f *Fleet) LastError() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// wrong counts a request that went wrong.
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
