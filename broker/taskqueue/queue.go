package taskqueue

import (
	"context"
	"crypto"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Signer signs tasks with a key that the node has confirmed.
type Signer interface {
	SignTask(ctx context.Context, task taskcatalog.Task, nodeTrustVersion int64) (envelope []byte, keyID string, err error)
}

// Config joins a queue to what it needs.
type Config struct {
	DB     *store.DB
	Signer Signer
	// ReleaseKeys are those in force, by which a signed release of the agent is known
	// again; nil: none is.
	ReleaseKeys func() release.Keys
	Rand        io.Reader   // of task ids and nonces
	Log         *zap.Logger // nil: none
	// Archives says for how long what tasks collected is kept.
	Archives ArchivePolicy
	// Stepped and Ended, where they are set, are told of each progress that was
	// accepted and of each task that got its result. They must not block.
	Stepped func(ctx context.Context, taskID string, p broker.Progress)
	Ended   func(t broker.Task)
}

// Queue is the life of tasks at the broker. It holds nothing that a restart
// would lose.
type Queue struct {
	c        Config
	waiters  waiters
	idle     idle
	packages contents
	// toTell asks the database for which nodes there is something.
	toTell func(context.Context) ([]string, error)

	probed broker.Task // the last of which ProbeUnknown has tried to ask; its own

	missed chan struct{} // hints may have been missed

	mu     sync.Mutex
	lastID int64                // microseconds in the last task id
	told   map[string]time.Time // task → when its node was last told to stop it
}

// New makes a queue. Run must run beside it for waiting polls to be woken.
func New(c Config) *Queue {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return &Queue{c: c, toTell: c.DB.NodesToTell, told: map[string]time.Time{}, missed: make(chan struct{}, 1), packages: contents{of: map[string][]taskcatalog.BaselineFile{}}}
}

// Run hands hints to waiting polls, and looks itself now and then, until ctx ends. No hint
// waits for a look.
func (q *Queue) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	hints := q.c.DB.Hints(ctx)
	defer q.idle.follow()()
	var looking sync.WaitGroup
	looking.Go(func() { q.keepLooking(ctx) })
	defer looking.Wait()
	defer stop()
	for h := range hints {
		q.heard(h)
	}
	return ctx.Err()
}

func (q *Queue) heard(h store.Hint) {
	switch h.Kind {
	case store.HintTask, store.HintCancel:
		q.idle.over(h.ID)
		q.waiters.wake("node/" + h.ID)
	case store.HintEnded:
		q.waiters.wake("task/" + h.ID)
	case store.HintMissed:
		select {
		case q.missed <- struct{}{}:
		default: // a look is due already
		}
	}
}

// Peer is the node that asks, as its certificate says.
type Peer struct {
	NodeID string
	Epoch  int64
	Serial string
	Key    crypto.PublicKey
	// Certified is when its certificate was issued.
	Certified time.Time
}

// Cancel stops a task: at once where no node has had it, by asking the node
// otherwise. A task that has ended stays as it is. Codes: task_not_found.
func (q *Queue) Cancel(ctx context.Context, actor broker.Actor, taskID, reason string) (broker.Task, error) {
	return q.c.DB.CancelTask(ctx, actor, taskID, reason)
}

// Sweep moves what time moves; the leader calls it every few seconds.
func (q *Queue) Sweep(ctx context.Context) (store.Swept, error) {
	var all store.Swept
	for {
		s, err := q.c.DB.SweepTasks(ctx)
		all.Requeued, all.Expired, all.Unknown = all.Requeued+s.Requeued, all.Expired+s.Expired, all.Unknown+s.Unknown
		if err != nil {
			return all, err
		}
		if s == (store.Swept{}) {
			return all, q.dropArchives(ctx)
		}
	}
}
