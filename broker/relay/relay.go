package relay

import (
	"context"
	"crypto/rand"
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
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

const (
	openWithin   = 2 * time.Minute  // the node comes for the first time
	tokenLife    = 30 * time.Second // of one that is minted for a task
	lastWords    = 10 * time.Second // an operator may take nothing of what the program wrote last
	exitKept     = 10 * time.Minute // it is for one who is away, where no limit says how long
	keepWithin   = 10 * time.Second // a recording is kept, or its session ends
	closeWithin  = 10 * time.Second
	askWithin    = time.Second      // the store says whether a session is still this relay's
	denyWithin   = 10 * time.Second // the store says why a certificate is denied
	maxSignals   = 16
	maxText      = 300
	maxSide      = 4096           // characters of a terminal
	resizeRate   = rate.Limit(20) // a second
	resizeBurst  = 100
	moveRate     = rate.Limit(1) / 60 // of rows and events that say where a session stands: a node may come and go as it likes
	moveBurst    = 20
	controlRate  = rate.Limit(20) // of frames that are neither bytes nor their acknowledgement
	controlBurst = 200
	idleRate     = rate.Limit(1000) // of frames that bring nothing new
	idleBurst    = 4000
)

// Config joins a relay to what it needs.
type Config struct {
	DB          *store.DB
	Keeper      recording.Keeper // nil: the store
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Roots       func() *x509.CertPool    // of the nodes' certificates
	Denied      func(serial string) bool // the deny list, as it was last read
	// FromBefore says whether a certificate is from before the database was restored; nil:
	// none is.
	FromBefore func(ctx context.Context, serial string) (bool, error)
	Now        func() time.Time
	Address    string // where nodes reach this relay
	// Tick is how often limits and the deny list are looked at; 0: four times a second.
	Tick time.Duration
	// HelloWithin is how long a node has for the handshake, and again for its Hello; 0: 5 s.
	HelloWithin time.Duration
	// PerSource bounds the connections of one address, or one IPv6 /64, that have not joined a
	// session; 0: 32.
	PerSource int
	// PerNode bounds the connections of one node that have; 0: 256.
	PerNode int
	// Unfinished bounds the connections that have not joined a session, of all addresses
	// together; 0: 1024.
	Unfinished int
	// Known are the addresses of nodes, for which there is room when strangers fill the rest;
	// nil: those that the relay itself has heard.
	Known *strangers.Known
	// DeadAfter is how long a side may say nothing, which is asked in time; 0: 10 s.
	DeadAfter time.Duration
	// GoneWithin is how long what a process wrote last is waited for, that is gone; 0: 1 s.
	GoneWithin time.Duration
	// ResetKey lets a relay that began anew tell the nodes of the one before that their
	// connections are gone: a secret that is the same after a start. nil: made at random.
	ResetKey []byte
	Log      *zap.Logger // nil: none
}

// Relay has the sessions whose operators are at this replica.
type Relay struct {
	c        Config
	sources  sources
	attempts attempts

	mu       sync.Mutex
	sessions map[string]*session
	opening  map[string]bool // and not in sessions yet
	stopped  bool
	running  sync.WaitGroup
	stop     context.CancelFunc
	ctx      context.Context // of the sessions: they outlast what opened them
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
	if c.GoneWithin == 0 {
		c.GoneWithin = time.Second
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	r := &Relay{
		c: c, sessions: map[string]*session{}, opening: map[string]bool{}, attempts: attempts{of: map[string]*tries{}},
		sources: sources{
			// A handshake takes three round trips, with QUIC's Retry four.
			begin:  strangers.NewRoom(strangers.Limits{Source: c.PerSource, All: c.Unfinished, Settle: c.HelloWithin / 5}, c.Known),
			ofNode: c.PerNode, has: map[string]int{},
		},
	}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// State says where the node of a session is, and over what it is connected. Codes:
// terminal_session_not_here.
func (r *Relay) State(id string) (frame.State, error) {
	s, err := r.session(id)
	if err != nil {
		return frame.State{}, err
	}
	return s.shown.Load().state, nil
}

// Away says since when a session's node is not here that is to be; zero: it is here, or its
// program has ended, or another relay has the session.
func (r *Relay) Away(id string) (since time.Time) {
	if s, err := r.session(id); err == nil {
		since = s.shown.Load().gone
	}
	return since
}

// Operator is who is in a session here; empty: nobody.
func (r *Relay) Operator(id string) (name string) {
	if s, err := r.session(id); err == nil {
		name = s.shown.Load().by
	}
	return name
}

// Detach has an operator leave a session who may be in it no more; it goes on without him.
// Codes: terminal_session_not_here.
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
		err = nil // it is an answer
	}
	return denial{serial: serial, rotated: c.DenyReason == store.DenyRotated, err: err}
}

// Mint makes the token that lets a session's node in, once and within half a minute, with
// the key of that digest. Only its hash is kept. Codes: terminal_session_not_found,
// terminal_session_over.
func (r *Relay) Mint(ctx context.Context, id, keyDigest string) (string, error) {
	token := rand.Text()
	return token, r.c.DB.SetTerminalToken(ctx, id, store.TerminalToken{Hash: pki.HashToken(token), Expires: r.c.DB.Now().Add(tokenLife), KeyDigest: keyDigest})
}

// Close ends a session, and waits until its record is closed. Codes: terminal_session_not_here.
func (r *Relay) Close(ctx context.Context, id, code, reason string) error {
	s, err := r.session(id)
	if err != nil {
		return err
	}
	s.do(func() { s.askedToEnd(code, taskcatalog.Clean(reason, maxText)) })
	select {
	case <-s.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Sessions are those that this relay has, in no order.
func (r *Relay) Sessions() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.sessions))
}

// Release lets go of a session that another relay has taken, without closing it. Whoever
// does not ask for it has the relay find out with the next thing it does. Codes:
// terminal_session_not_here.
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

// Stop lets go of all sessions, which others may go on with, and returns when nothing of
// them is left.
func (r *Relay) Stop() {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.stop()
	r.running.Wait()
}

// attack writes into the audit log what a node did that none of ours does.
func (r *Relay) attack(nodeID, sessionID, code, what string) {
	ctx, done := context.WithTimeout(context.WithoutCancel(r.ctx), closeWithin)
	defer done()
	if err := r.c.DB.AuditRefusal(ctx, broker.AuditEntry{
		Actor: "node:" + nodeID, Action: "terminal.attack", Subject: "terminal/" + sessionID, Code: code, Reason: taskcatalog.Clean(what, maxText),
	}); err != nil {
		r.c.Log.Warn("cannot audit an attack", zap.String("session", sessionID), zap.String("code", code), zap.Error(err))
	}
}
