package relay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/strangers"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

const (
	openWithin     = 2 * time.Minute  // bound on the wait for the node's first connection
	lastOutputTime = 10 * time.Second // bound on the silence of an operator who does not take the program's last output
	exitKept       = 10 * time.Minute // an exit status waits for a detached operator, if the session has no detach limit
	keepWithin     = 10 * time.Second // the session ends if its recording is not kept within this time
	closeWithin    = 10 * time.Second
	askWithin      = time.Second      // bound on one question to the store
	denyWithin     = 10 * time.Second // the store is asked again this long why a certificate is denied
	maxSignals     = 16
	maxText        = 300
	maxSide        = 4096           // characters of a terminal
	resizeRate     = rate.Limit(20) // a second
	resizeBurst    = 100
	moveRate       = rate.Limit(1) / 60 // of status changes in the store: a node may reconnect as often as it likes
	moveBurst      = 20
	controlRate    = rate.Limit(20) // of frames other than Data, Ack and Resize
	controlBurst   = 200
	idleRate       = rate.Limit(1000) // of frames that bring nothing new
	idleBurst      = 4000
)

// Config has the dependencies and the limits of a relay.
type Config struct {
	DB          *store.DB
	Keeper      recording.Keeper // nil: the store
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Roots       func() *x509.CertPool    // of the nodes' certificates
	Denied      func(serial string) bool // the deny list, as it was last read
	// BeforeRestore reports whether a certificate is from before a restore of the database; nil: no
	// certificate is.
	BeforeRestore func(ctx context.Context, serial string) (bool, error)
	Now           func() time.Time
	Address       string // where nodes reach this relay
	// Tick is the interval of checks of limits and of the deny list; 0: a quarter of a second.
	Tick time.Duration
	// HelloWithin bounds the handshake, and then the wait for the Hello; 0: 5 s.
	HelloWithin time.Duration
	// PerSource bounds the connections of one address, or one IPv6 /64, without a session; 0: 32.
	PerSource int
	// PerNode bounds the joined connections of one node; 0: 256.
	PerNode int
	// Unfinished bounds the connections that have not joined a session, of all addresses
	// together; 0: 1024.
	Unfinished int
	// Known are the addresses of nodes. Nodes at these addresses get room even when strangers fill
	// the rest; nil: the addresses that the relay itself has seen.
	Known *strangers.Known
	// DeadAfter is the greatest silence of a side, which gets a Ping in time; 0: 10 s.
	DeadAfter time.Duration
	// GoneWithin bounds the wait for the last output of a process that is gone; 0: 1 s.
	GoneWithin time.Duration
	// MemberOutput bounds the bytes that a member's session shows; 0: broker.MostOutputOfMember.
	MemberOutput uint64
	// ResetKey lets a restarted relay tell the nodes of its predecessor that their connections are
	// gone. The secret must stay the same over restarts; nil: random.
	ResetKey []byte
	Log      *zap.Logger // nil: none
}

// Relay holds the sessions of the operators at this replica.
type Relay struct {
	c        Config
	sources  sources
	attempts attempts

	mu       sync.Mutex
	sessions map[string]*session
	opening  map[string]bool // not yet in sessions
	stopped  bool
	running  sync.WaitGroup
	stop     context.CancelFunc
	ctx      context.Context // of the sessions, which outlast their Open call
}

// New makes a relay without sessions.
func New(c Config) *Relay {
	if c.Keeper == nil {
		c.Keeper = c.DB.RecordingKeeper(c.Address)
	}
	if c.Tick == 0 {
		c.Tick = time.Second / 4
	}
	if c.HelloWithin == 0 {
		c.HelloWithin = 5 * time.Second
	}
	if c.PerSource == 0 {
		c.PerSource = 32
	}
	if c.PerNode == 0 {
		c.PerNode = 256
	}
	if c.Unfinished == 0 {
		c.Unfinished = 1024
	}
	if c.Known == nil {
		c.Known = strangers.NewKnown()
	}
	if c.DeadAfter == 0 {
		c.DeadAfter = 10 * time.Second
	}
	if c.MemberOutput == 0 {
		c.MemberOutput = broker.MostOutputOfMember
	}
	if c.GoneWithin == 0 {
		c.GoneWithin = time.Second
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	r := &Relay{
		c: c, sessions: map[string]*session{}, opening: map[string]bool{}, attempts: attempts{byNode: map[string]*attemptLimits{}},
		sources: sources{
			// A handshake takes three round trips, with QUIC's Retry four.
			begin:  strangers.NewRoom(strangers.Limits{Source: c.PerSource, All: c.Unfinished, Settle: c.HelloWithin / 5}, c.Known),
			ofNode: c.PerNode, has: map[string]int{},
		},
	}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// State returns the state of a session's node and its transport. Codes: terminal_session_not_here.
func (r *Relay) State(id string) (frame.State, error) {
	s, err := r.session(id)
	if err != nil {
		return frame.State{}, err
	}
	return s.shown.Load().state, nil
}

// AbsentSince returns the time since when the session's node is missing. Zero: the node is here,
// its program has ended, or another relay has the session.
func (r *Relay) AbsentSince(id string) (since time.Time) {
	if s, err := r.session(id); err == nil {
		since = s.shown.Load().nodeGoneSince
	}
	return since
}

// Operator returns the name of the operator in a session here; empty: nobody.
func (r *Relay) Operator(id string) (name string) {
	if s, err := r.session(id); err == nil {
		name = s.shown.Load().by
	}
	return name
}

// Detach disconnects an operator who may no longer be in the session; the session continues. Codes:
// terminal_session_not_here.
func (r *Relay) Detach(id, by, code, reason string) error {
	s, err := r.session(id)
	if err != nil {
		return err
	}
	s.do(func() {
		if s.operator != nil && s.by == by {
			s.dropOperator(frame.Bye{Code: taskcatalog.Code(code), Text: taskcatalog.Clean(reason, maxText)})
		}
	})
	return nil
}

// denial asks the store why a certificate is denied.
func (r *Relay) denial(serial string) denial {
	ctx, done := context.WithTimeout(r.ctx, askWithin)
	defer done()
	c, err := r.c.DB.Certificate(ctx, serial)
	if broker.AsError(err).Kind == broker.NotFound {
		err = nil // not found is an answer
	}
	return denial{serial: serial, rotated: c.DenyReason == store.DenyRotated, err: err}
}

// Close ends a session, and waits until the session is recorded as closed. Close also returns nil
// if the end could not be recorded: the session then stays closing until Reap. Codes:
// terminal_session_not_here.
func (r *Relay) Close(ctx context.Context, id, code, reason string) error {
	s, err := r.session(id)
	if err != nil {
		return err
	}
	s.do(func() { s.requestEnd(code, taskcatalog.Clean(reason, maxText)) })
	select {
	case <-s.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Sessions returns the ids of the sessions of this relay, in no order.
func (r *Relay) Sessions() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.sessions))
}

// Release releases a session that another relay has taken, without closing the session. Without a
// call of Release, the relay finds out at its next write. Codes: terminal_session_not_here.
func (r *Relay) Release(id string) error {
	s, err := r.session(id)
	if err == nil && !s.do(s.moved) {
		err = notHere(id)
	}
	return err
}

func (r *Relay) session(id string) (*session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sessions[id]; s != nil {
		return s, nil
	}
	return nil, notHere(id)
}

func notHere(id string) *broker.Error {
	return broker.Errorf(broker.NotFound, "terminal_session_not_here", "this relay has no terminal session %q", taskcatalog.Clean(id, 60))
}

// Stop releases all sessions, so that other relays can continue them, and returns when nothing of
// them is left.
func (r *Relay) Stop() {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.stop()
	r.running.Wait()
}

// auditAttack records a node's protocol violation in the audit log; no node of ours does that.
func (r *Relay) auditAttack(nodeID, sessionID, code, what string) {
	ctx, done := context.WithTimeout(context.WithoutCancel(r.ctx), closeWithin)
	defer done()
	if err := r.c.DB.AuditRefusal(ctx, broker.AuditEntry{
		Actor: "node:" + nodeID, Action: "terminal.attack", Subject: "terminal/" + sessionID, Code: code,
		Reason: taskcatalog.Clean(what, maxText),
	}); err != nil {
		r.c.Log.Warn("cannot audit an attack", zap.String("session", sessionID), zap.String("code", code), zap.Error(err))
	}
}
