package relay

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	openWithin   = 2 * time.Minute  // the node comes for the first time
	tokenLife    = 30 * time.Second // of one that is minted for a task
	lastWords    = 10 * time.Second // an operator has to take what the program wrote last
	keepWithin   = 10 * time.Second // a recording is kept, or its session ends
	closeWithin  = 10 * time.Second
	askWithin    = time.Second // the store says whether a session is still this relay's
	maxSignals   = 16
	maxText      = 300
	resizeRate   = rate.Limit(20) // a second
	resizeBurst  = 100
	controlRate  = rate.Limit(20) // of frames that are neither bytes nor their acknowledgement
	controlBurst = 200
)

// actor is who does in the store what a relay does by itself.
var actor = broker.Actor{Name: "system"}

// Config joins a relay to what it needs.
type Config struct {
	DB          *store.DB
	Keeper      recording.Keeper // nil: the store
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Roots       func() *x509.CertPool    // of the nodes' certificates
	Denied      func(serial string) bool // the deny list, as it was last read
	Now         func() time.Time
	Address     string // where nodes reach this relay
	// Tick is how often limits and the deny list are looked at; 0: four times a second.
	Tick time.Duration
	// HelloWithin is how long a node has for the handshake, and again for its Hello; 0: 5 s.
	HelloWithin time.Duration
	// PerSource bounds the connections of one address; 0: 256.
	PerSource int
	Log       *zap.Logger // nil: none
}

// Relay has the sessions whose operators are at this replica.
type Relay struct {
	c       Config
	sources sources

	mu       sync.Mutex
	sessions map[string]*session
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
		c.PerSource = 256
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	r := &Relay{c: c, sessions: map[string]*session{}, sources: sources{most: c.PerSource, has: map[string]int{}}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// Open takes a session: one that was made, or one that another relay had, with whose
// recording it goes on. Codes: terminal_session_not_found, terminal_session_over,
// terminal_session_here, relay_stopping, and those of the recording.
func (r *Relay) Open(ctx context.Context, id string, h recording.Header) error {
	row, err := r.c.DB.TerminalSession(ctx, id)
	if err != nil {
		return err
	}
	if row.Status.Over() {
		return broker.Errorf(broker.Refused, "terminal_session_over", "cannot open terminal session %s: it is %s", id, row.Status)
	}
	if err := r.vacant(id); err != nil {
		return err
	}
	if err := r.c.DB.SetTerminalReplica(ctx, actor, id, r.c.Address); err != nil {
		return err
	}
	rec, began, err := r.recorder(ctx, id, h)
	if err != nil {
		return err
	}
	s := newSession(r, row, rec, began)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.vacantLocked(id); err != nil {
		return err
	}
	r.sessions[id] = s
	r.running.Go(func() {
		s.run(r.ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.sessions, id)
	})
	return nil
}

func (r *Relay) vacant(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.vacantLocked(id)
}

func (r *Relay) vacantLocked(id string) error {
	switch {
	case r.stopped:
		return broker.Errorf(broker.Unavailable, "relay_stopping", "cannot open terminal session %s: the relay stops (try again)", id)
	case r.sessions[id] != nil:
		return broker.Errorf(broker.Refused, "terminal_session_here", "cannot open terminal session %s: it is open here", id)
	}
	return nil
}

// recorder begins a recording, or goes on with one, and says up to where it goes.
func (r *Relay) recorder(ctx context.Context, id string, h recording.Header) (*recording.Recorder, uint64, error) {
	last, err := r.c.DB.LastBlock(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	if last.Seq < 0 {
		rec, err := recording.Begin(ctx, r.c.Keeper, id, h, r.c.Now)
		return rec, 0, err
	}
	for first, err := range r.c.DB.Blocks(ctx, id) {
		if err != nil {
			return nil, 0, err
		}
		rec, err := recording.Resume(ctx, r.c.Keeper, last, first.At, r.c.Now)
		return rec, last.To, err
	}
	return nil, 0, broker.Errorf(broker.Refused, "recording_broken", "cannot go on with the recording of session %s: it has no beginning", id)
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
	s.do(func() { s.finish(code, taskcatalog.Clean(reason, maxText)) })
	select {
	case <-s.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
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
