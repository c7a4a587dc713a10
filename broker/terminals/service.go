package terminals

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	ticketLife = 30 * time.Second
	tokenLife  = 30 * time.Second
	// maxOfNode bounds the simultaneous sessions of a node.
	maxOfNode = 64
)

// Config holds the dependencies of a Service.
type Config struct {
	DB      *store.DB
	Queue   *taskqueue.Queue
	Relay   *relay.Relay
	Address string // where nodes reach that relay
	// Instance identifies this broker and no other. Instance stays the same over restarts, so that
	// a restarted broker can reuse its address at once. Empty: random.
	Instance string
	Now      func() time.Time
	// Tick is the interval at which sessions are checked; 0: a quarter of a second.
	Tick time.Duration
	Log  *zap.Logger // nil: none
}

// Service is one replica's entry point for operators' sessions.
type Service struct {
	c     Config
	self  store.TerminalRelay
	began time.Time
	watch watch

	beating sync.Mutex
	beatAt  time.Time
}

// New makes a Service. The caller must start Run.
func New(c Config) *Service {
	if c.Tick == 0 {
		c.Tick = time.Second / 4
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return &Service{
		c: c, self: store.TerminalRelay{Address: c.Address, Instance: cmp.Or(c.Instance, rand.Text())}, began: c.DB.Now(),
		watch: watch{busy: map[string]bool{}},
	}
}

// Address returns the address at which nodes reach this replica's relay.
func (d *Service) Address() string { return d.c.Address }

// Size is the size of the operator's terminal, in characters.
type Size struct{ Columns, Rows int }

// Request asks for a session.
type Request struct {
	NodeID       string
	Username     string // empty: the user of the one live allocation
	AllocationID string // empty: the live allocation with that user
	ProjectID    string // for which a member asks; empty: an operator asks
	Command      []string
	Term         string
	Locale       map[string]string
	Size         Size
	Reason       string
}

// Ticket admits its operator once.
type Ticket struct {
	Secret  string
	Expires time.Time
}

// Open creates a session, gives the session to the relay, and sends the node the task. A refusal is
// audited. Codes: those of broker.TerminalAccess, node_not_found, terminal_user_missing,
// terminal_user_refused, terminal_command_refused, terminal_env_refused, terminal_too_many,
// relay_address_taken, task_type_unsupported, and those of the relay and the queue.
func (d *Service) Open(ctx context.Context, by broker.OperatorToken, r Request) (id string, k Ticket, err error) {
	actor := broker.Actor{Name: by.Name, Role: by.Role}
	a, node, params, err := d.judge(ctx, by, r)
	if err != nil {
		return "", k, d.refused(ctx, by, "node/"+r.NodeID, err)
	}
	if err := d.beat(ctx, true); err != nil {
		return "", k, err
	}
	id = newID()
	params.SessionID = id
	var signIn broker.SignIn
	if by.SignedIn() {
		signIn = broker.SignIn{Role: by.Role, Place: by.Place, Until: by.ExpiresAt}
	}
	row, err := d.c.DB.CreateTerminalSession(ctx, actor, broker.TerminalSession{
		SignIn: signIn,
		ID:     id, NodeID: node.ID, NodeEpoch: node.Epoch, AllocationID: params.AllocationID, Username: params.Username,
		Reason: r.Reason, Limits: r.limits(a.Policy), RecordInput: a.Policy.RecordInput, Replica: d.c.Address, ProjectID: r.ProjectID,
	})
	if err != nil {
		return "", k, err
	}
	if err = d.begin(ctx, actor, row, params, node.Status, r.Size); err == nil {
		k, err = d.ticket(ctx, actor, id, r.Size)
	}
	if err != nil {
		d.abandon(id, err)
	}
	return id, k, err
}

// judge decides whether a session may be opened, as which user and how.
func (d *Service) judge(
	ctx context.Context, by broker.OperatorToken, r Request,
) (a broker.TerminalAccess, n broker.Node, p taskcatalog.TerminalOpenParams, err error) {
	if n, err = d.c.DB.Node(ctx, r.NodeID); err != nil {
		return a, n, p, err
	}
	if p, err = r.params(); err != nil {
		return a, n, p, err
	}
	if p.Username, p.AllocationID, err = d.user(ctx, n.ID, r); err != nil {
		return a, n, p, err
	}
	if a, err = d.c.DB.TerminalAccess(ctx, by.Name, n.ID, p.Username, p.AllocationID); err != nil {
		return a, n, p, err
	}
	asShown(&a, by)
	if e := a.Refusal(d.c.Now()); e != nil {
		return a, n, p, e
	}
	if err := taskqueue.Admits(n, "terminal.open"); err != nil {
		return a, n, p, err
	}
	live, err := d.c.DB.CountLiveTerminals(ctx, n.ID)
	if err == nil && live >= maxOfNode {
		err = broker.Errorf(broker.Refused, "terminal_too_many",
			"cannot open a terminal on node %s: the node has %d open sessions (close one: hostler terminal list --node %s)", n.ID, live,
			n.ID)
	}
	l := a.Policy.Limits()
	p.MaxSeconds, p.DetachSeconds = int(l.Max/time.Second), int(l.Detach/time.Second)
	p.AllowRoot = p.AllocationID == "" && a.AsRoot()
	return a, n, p, err
}

// asShown lets a person who signed in be judged by the ID token of the request: no table has the person.
// The request is let in only while the person is not denied.
func asShown(a *broker.TerminalAccess, by broker.OperatorToken) {
	if by.SignedIn() {
		a.Operator = by
	}
}

// user returns the user of a session: the user of a live allocation, or another user.
func (d *Service) user(ctx context.Context, nodeID string, r Request) (username, allocationID string, err error) {
	all, err := d.c.DB.Occupants(ctx, nodeID)
	if err != nil {
		return "", "", err
	}
	var fits []broker.Occupant
	for _, a := range all {
		if a.Live() && (r.AllocationID == "" || r.AllocationID == a.ID) && (r.Username == "" || r.Username == a.Username) {
			fits = append(fits, a)
		}
	}
	switch {
	case len(fits) == 1, len(fits) > 1 && r.Username != "": // several live allocations of the same user
		return fits[0].Username, fits[0].ID, nil
	case r.AllocationID != "":
		return "", "", broker.Errorf(broker.Refused, "terminal_user_refused",
			"cannot open a terminal on node %s: the node has no live allocation %s with that user (hostler node show %s)", nodeID,
			taskcatalog.Clean(r.AllocationID, 64), nodeID)
	case r.Username != "":
		return r.Username, "", nil
	}
	return "", "", broker.Errorf(broker.Invalid, "terminal_user_missing",
		"cannot open a terminal on node %s: the node has %d live allocations (name the user: --user)", nodeID, len(fits))
}

// begin stores the task of a new session and takes the session.
func (d *Service) begin(
	ctx context.Context, actor broker.Actor, s broker.TerminalSession, p taskcatalog.TerminalOpenParams, in broker.NodeStatus,
	size Size,
) error {
	if err := d.c.DB.PrepareTerminal(ctx, s.ID, p, in); err != nil {
		return err
	}
	return d.take(ctx, actor, s, size)
}

// take gives a session to this replica's relay and sends the node there.
func (d *Service) take(ctx context.Context, actor broker.Actor, s broker.TerminalSession, size Size) error {
	if err := d.beat(ctx, true); err != nil {
		return err
	}
	p, n, err := d.c.DB.NextTerminalOpen(ctx, s.ID)
	if err != nil {
		return err
	}
	env := map[string]string{}
	if p.Term != "" {
		env["TERM"] = p.Term
	}
	if err := d.c.Relay.Open(ctx, s.ID, recording.Header{
		Width: size.Columns, Height: size.Rows, Timestamp: d.c.Now().Unix(), Title: p.Username + "@" + s.NodeID, Env: env,
	}); err != nil {
		return err
	}
	return d.send(ctx, actor, s, p, n)
}

// send sends a session's node to this replica's relay, for the nth time.
func (d *Service) send(ctx context.Context, actor broker.Actor, s broker.TerminalSession, p taskcatalog.TerminalOpenParams, n int64) error {
	p.Relay = d.c.Address
	raw, err := taskcatalog.Encode(p)
	if err != nil {
		return err
	}
	task, _, err := d.c.Queue.Enqueue(ctx, actor, taskqueue.Request{
		NodeID: s.NodeID, Type: "terminal.open", Params: raw, IdempotencyKey: fmt.Sprintf("%s/%s/%d", s.ID, d.c.Address, n),
		CorrelationID: s.ID,
	})
	if err != nil {
		return err
	}
	return d.c.DB.SentTerminalOpen(ctx, s.ID, task.ID)
}

// abandon ends a session that could not be begun.
func (d *Service) abandon(id string, why error) {
	ctx, done := context.WithTimeout(context.Background(), endWithin)
	defer done()
	e := broker.AsError(why)
	if err := d.close(ctx, id, e.Code, e.Message); err != nil {
		d.c.Log.Error("cannot close a terminal session that failed to start", zap.String("session", id), zap.Error(err))
	}
}

// Ticket makes a ticket for an existing session, for the operator who opened the session or a
// platform admin. A session of a person who signed in then lasts as long as the ID token that the person
// shows. Codes: as of broker.TerminalAccess, terminal_session_not_found,
// terminal_session_over, terminal_not_yours.
func (d *Service) Ticket(ctx context.Context, by broker.OperatorToken, id string, size Size) (k Ticket, err error) {
	if _, err := d.mayJoin(ctx, by, id); err != nil {
		return k, err
	}
	if by.SignedIn() {
		if err := d.c.DB.RenewTerminalSignIn(ctx, by, id); err != nil {
			return k, err
		}
	}
	return d.ticket(ctx, broker.Actor{Name: by.Name, Role: by.Role}, id, size)
}

// mayJoin returns a session that the operator may join. A refusal is audited.
func (d *Service) mayJoin(ctx context.Context, by broker.OperatorToken, id string) (broker.TerminalSession, error) {
	s, no, err := d.checkAccess(ctx, by, id)
	if err == nil && no != nil {
		err = d.refused(ctx, by, "terminal/"+s.ID, no)
	}
	return s, err
}

// checkAccess says why the operator, with his present token, may not be in a session; nil: he may.
func (d *Service) checkAccess(
	ctx context.Context, by broker.OperatorToken, id string,
) (s broker.TerminalSession, no *broker.Error, err error) {
	s, a, err := d.c.DB.TerminalSessionAccess(ctx, by.Name, id)
	if err != nil {
		return s, nil, err
	}
	asShown(&a, by)
	if no = a.Refusal(d.c.Now()); no == nil && s.OpenedBy != by.Name && !a.Operator.Role.Covers(broker.RolePlatformAdmin) {
		no = broker.Errorf(broker.Forbidden, "terminal_not_yours",
			"cannot join terminal session %s: %s opened the session (open your own session)", s.ID, s.OpenedBy)
	}
	return s, no, nil
}

func (d *Service) ticket(ctx context.Context, actor broker.Actor, id string, size Size) (Ticket, error) {
	k := Ticket{Secret: rand.Text(), Expires: d.c.DB.Now().Add(ticketLife)}
	return k, d.c.DB.AddTerminalTicket(ctx, actor, store.TerminalTicket{
		Hash: pki.HashToken(k.Secret), SessionID: id, Operator: actor.Name, Width: size.Columns, Height: size.Rows, Expires: k.Expires,
	})
}

// Join admits an operator with a ticket. When Join returns nil, this replica's relay has the
// session. Codes: those of Ticket, of store.UseTerminalTicket and of the relay.
func (d *Service) Join(ctx context.Context, by broker.OperatorToken, id, ticket string) error {
	actor := broker.Actor{Name: by.Name, Role: by.Role}
	k, err := d.c.DB.UseTerminalTicket(ctx, actor, id, pki.HashToken(ticket))
	if err != nil {
		return err
	}
	s, err := d.mayJoin(ctx, by, id)
	if err != nil || d.has(id) && s.Replica == d.c.Address {
		return err
	}
	_ = d.c.Relay.Release(id) // in case it was taken from here and comes back
	err = d.take(ctx, actor, s, Size{k.Width, k.Height})
	if broker.AsError(err).Code == "terminal_session_here" {
		return nil // two operators joined at once
	}
	return err
}

// Close ends a session at any replica, and at once if this replica has it. Codes:
// terminal_session_not_found.
func (d *Service) Close(ctx context.Context, by broker.OperatorToken, id, reason string) error {
	if err := d.c.DB.AskTerminalEnd(ctx, broker.Actor{Name: by.Name, Role: by.Role}, id, CodeClosed, reason); err != nil {
		return err
	}
	if !d.has(id) {
		return nil // the watch of the replica with the session ends it
	}
	return d.close(ctx, id, CodeClosed, reason)
}

// CodeClosed is the code of a session that a user closed.
const CodeClosed = "terminal_closed"

// has reports whether this replica's relay has a session.
func (d *Service) has(id string) bool { return slices.Contains(d.c.Relay.Sessions(), id) }

// Mint makes the token with which the session of a terminal.open task joins its relay, bound to the
// caller's key. Codes: credential_refused, and the codes of store.SetTerminalToken.
func (d *Service) Mint(ctx context.Context, task broker.Task, keyDigest string) (m broker.Minted, err error) {
	var p taskcatalog.TerminalOpenParams
	if err := taskcatalog.DecodeStrict(task.Params, &p); err != nil {
		return m, err
	}
	s, err := d.c.DB.TerminalSession(ctx, p.SessionID)
	if err != nil {
		return m, err
	}
	if s.NodeID != task.NodeID || s.NodeEpoch != task.NodeEpoch {
		return m, broker.Errorf(broker.Forbidden, "credential_refused",
			"cannot mint a token for task %s: session %s does not belong to the node's present enrolment", task.ID, s.ID)
	}
	m = broker.Minted{Secret: rand.Text(), Expires: d.c.DB.Now().Add(tokenLife), Opens: "terminal/" + s.ID}
	return m,
		d.c.DB.SetTerminalToken(ctx, s.ID, store.TerminalToken{Hash: pki.HashToken(m.Secret), Expires: m.Expires, KeyDigest: keyDigest})
}

// refused audits an operator's refusal and returns it unchanged.
func (d *Service) refused(ctx context.Context, by broker.OperatorToken, subject string, err error) error {
	var e *broker.Error
	if !errors.As(err, &e) || e.Kind == broker.Internal || e.Kind == broker.Unavailable {
		return err
	}
	if logged := d.c.DB.AuditRefusal(ctx, broker.AuditEntry{
		Actor: by.Name, Action: "terminal.refused", Subject: subject, Code: e.Code,
		Reason: taskcatalog.Clean(e.Message, 300),
	}); logged != nil {
		return logged
	}
	return err
}

var lower32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newID returns a new session id.
func newID() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails
	return "ts-" + lower32.EncodeToString(b[:])
}
