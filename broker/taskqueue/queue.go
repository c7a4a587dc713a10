package taskqueue

import (
	"context"
	"crypto"
	"encoding/json"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// Signer signs tasks with a key that the node has confirmed.
type Signer interface {
	SignTask(ctx context.Context, task taskcatalog.Task, nodeTrustVersion int64) (envelope []byte, keyID string, err error)
}

// Config joins a queue to what it needs.
type Config struct {
	DB     *store.DB
	Signer Signer
	Rand   io.Reader   // of task ids and nonces
	Log    *zap.Logger // nil: none
}

// Queue is the life of tasks at the broker.
type Queue struct{ c Config }

// New makes a queue. Run must run beside it for waiting polls to be woken.
func New(c Config) *Queue { return &Queue{c: c} }

// Run hands hints to waiting polls, until ctx ends.
func (q *Queue) Run(ctx context.Context) error { return nil }

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

// Peer is the node that asks, as its certificate says.
type Peer struct {
	NodeID string
	Epoch  int64
	Serial string
	Key    crypto.PublicKey
}

// Enqueue checks, completes, signs and queues a task. repeat: the idempotency key had done so before.
func (q *Queue) Enqueue(ctx context.Context, actor broker.Actor, r Request) (task broker.Task, repeat bool, err error) {
	return broker.Task{}, false, nil
}

// Wait answers with tasks to run and to stop, as soon as there are any, or with an empty reply after hold.
func (q *Queue) Wait(ctx context.Context, p Peer, lanes []taskcatalog.Lane, hold time.Duration) (wire.WaitReply, error) {
	return wire.WaitReply{}, nil
}

// Progress renews the lease and answers with what to stop.
func (q *Queue) Progress(ctx context.Context, p Peer, taskID string, r wire.ProgressRequest) (wire.ProgressReply, error) {
	return wire.ProgressReply{}, nil
}

// Result ends a task. The first result stands.
func (q *Queue) Result(ctx context.Context, p Peer, taskID string, r wire.ResultRequest) (wire.ResultReply, error) {
	return wire.ResultReply{}, nil
}

// Cancel stops a task: at once where no node has it, by asking the node else.
func (q *Queue) Cancel(ctx context.Context, actor broker.Actor, taskID, reason string) (broker.Task, error) {
	return broker.Task{}, nil
}

// Sweep moves what time moves; the leader calls it every few seconds.
func (q *Queue) Sweep(ctx context.Context) (store.Swept, error) { return store.Swept{}, nil }

// AwaitEnd returns the task once it has ended, or as it is after hold.
func (q *Queue) AwaitEnd(ctx context.Context, taskID string, hold time.Duration) (broker.Task, error) {
	return broker.Task{}, nil
}
