package taskqueue

import (
	"context"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Request asks for a task on a node.
type Request struct {
	NodeID         string // an id; callers resolve references
	Type           string
	Version        int             // 0: the latest
	Params         json.RawMessage // empty: {}
	IdempotencyKey string
	RetryOf        string
	CorrelationID  string // empty: a new one
	TraceParent    string
}

// bySystem is the broker itself, as an actor.
const bySystem = "system"

// Enqueue checks, completes, signs and queues a task. repeat reports that an earlier request with
// the same idempotency key did so. Refusals of a person's request are audited, and refusals of the
// broker's own requests are not: these follow a node's polls, and a node must not be able to fill
// the log. Codes:
// node_not_found, node_deleted, node_not_enrolled, unknown_type, unknown_version, bad_params,
// broker_filled_params, task_type_unsupported, capability_missing, node_status,
// idempotency_conflict, node_changed, bad_request, and for a task that lets a tenant in the codes
// of broker.Handout.
func (q *Queue) Enqueue(ctx context.Context, actor broker.Actor, r Request) (broker.Task, bool, error) {
	k, repeat, err := q.enqueue(ctx, actor, r)
	if err == nil {
		return k, repeat, nil
	}
	if e := broker.AsError(err); e.Kind != broker.Internal && e.Kind != broker.Unavailable && actor.Name != bySystem {
		if err := q.c.DB.Audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "task.refused", Subject: "node/" + taskcatalog.Clean(r.NodeID, maxKey), Code: e.Code,
			Reason: taskcatalog.Clean(e.Message, taskcatalog.MaxText), CorrelationID: taskcatalog.Clean(r.CorrelationID, maxKey),
		}); err != nil {
			return k, false, err
		}
	}
	return k, repeat, err
}

func (q *Queue) enqueue(ctx context.Context, actor broker.Actor, r Request) (broker.Task, bool, error) {
	typ, params, err := q.read(&r)
	if err != nil {
		return broker.Task{}, false, err
	}
	if had, ok, err := q.repeat(ctx, typ, r); err != nil || ok {
		return had, ok, err
	}
	node, err := q.c.DB.Node(ctx, r.NodeID)
	if err != nil {
		return broker.Task{}, false, err
	}
	if err := admit(node, typ, params); err != nil {
		return broker.Task{}, false, err
	}
	full, err := q.fill(ctx, node, typ, params, r.Params)
	if err != nil {
		return broker.Task{}, false, err
	}
	k, err := q.sign(ctx, node, typ, r, full)
	if err != nil {
		return broker.Task{}, false, err
	}
	return q.c.DB.InsertTask(ctx, actor, k)
}

// read judges a request by itself: type, params, and its names.
func (q *Queue) read(r *Request) (taskcatalog.Type, any, error) {
	lookup := func() (taskcatalog.Type, error) { return taskcatalog.Lookup(r.Type, r.Version) }
	if r.Version == 0 {
		lookup = func() (taskcatalog.Type, error) { return taskcatalog.Latest(r.Type) }
	}
	typ, err := lookup()
	if err != nil {
		return typ, nil, asInvalid(err)
	}
	for _, s := range []string{r.IdempotencyKey, r.RetryOf, r.CorrelationID, r.TraceParent} {
		if taskcatalog.Clean(s, maxKey) != s {
			return typ, nil, broker.Errorf(broker.Invalid, "bad_request",
				"cannot enqueue %s: idempotency keys and correlation ids must be plain text of at most %d bytes", typ.ID(), maxKey)
		}
	}
	if len(r.Params) == 0 {
		r.Params = json.RawMessage(`{}`)
	}
	if name := brokerFilled(typ, r.Params); name != "" {
		return typ, nil, broker.Errorf(broker.Invalid, string(taskcatalog.CodeBrokerFilledParams),
			"cannot enqueue %s: the broker sets %q itself (leave it out)", typ.ID(), name)
	}
	params, err := typ.DecodeParams(r.Params)
	if err != nil {
		return typ, nil, asInvalid(err)
	}
	if r.CorrelationID == "" {
		r.CorrelationID = "c-" + q.random(10)
	}
	return typ, params, nil
}

// brokerFilled names a param in raw that only the broker may fill in.
func brokerFilled(typ taskcatalog.Type, raw json.RawMessage) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return "" // DecodeParams reports the fault
	}
	for _, name := range typ.BrokerFills {
		if _, ok := members[name]; ok {
			return name
		}
	}
	return ""
}

func (q *Queue) sign(ctx context.Context, node broker.Node, typ taskcatalog.Type, r Request, params json.RawMessage) (broker.Task, error) {
	now := q.c.DB.Now()
	k := broker.Task{
		ID: q.newTaskID(now.UnixMicro()), NodeID: node.ID, NodeEpoch: node.Epoch, Type: typ.Name, Version: typ.Version, Class: typ.Class,
		Lane:   typ.Lane,
		Params: r.Params, Nonce: q.nonce(), RetryOf: r.RetryOf, IdempotencyKey: r.IdempotencyKey, CorrelationID: r.CorrelationID,
		TraceParent: r.TraceParent,
		IssuedAt:    now, NotAfter: now.Add(typ.Class.StartWindow()),
	}
	var err error
	k.Envelope, k.KeyID, err = q.c.Signer.SignTask(ctx, taskcatalog.Task{
		TaskID: k.ID, NodeID: k.NodeID, NodeEpoch: k.NodeEpoch, Type: k.Type, Version: k.Version, Params: params, Nonce: k.Nonce,
		IssuedAt: k.IssuedAt, NotAfter: k.NotAfter, CorrelationID: k.CorrelationID, TraceParent: k.TraceParent,
	}, node.TrustVersion)
	if taskcatalog.CodeOf(err, "") == taskcatalog.CodeTooLarge {
		return k, asInvalid(err)
	}
	if err != nil {
		return k, err
	}
	k.EnvelopeDigest = pki.Digest(k.Envelope)
	return k, nil
}

var lower32 = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// newTaskID makes an id that sorts by time: microseconds, each at most once in this process, then
// 80 random bits.
func (q *Queue) newTaskID(micros int64) string {
	q.mu.Lock()
	q.lastID = max(q.lastID+1, micros)
	micros = q.lastID
	q.mu.Unlock()
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(micros))
	return "t-" + lower32.EncodeToString(b[:]) + q.random(10)
}

func (q *Queue) nonce() string {
	var b [32]byte
	q.fillRandom(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func (q *Queue) random(bytes int) string {
	b := make([]byte, bytes)
	q.fillRandom(b)
	return lower32.EncodeToString(b)
}

// fillRandom fills b. Without randomness nothing may be signed.
func (q *Queue) fillRandom(b []byte) {
	if _, err := io.ReadFull(q.c.Rand, b); err != nil {
		panic("taskqueue: no randomness: " + err.Error())
	}
}

// asInvalid turns the catalog's refusals into errors of the caller.
func asInvalid(err error) error {
	code := taskcatalog.CodeOf(err, "")
	if code == "" {
		return err
	}
	return broker.Errorf(broker.Invalid, string(code), "cannot enqueue task: %s", strings.TrimPrefix(err.Error(), "cannot enqueue task: "))
}
