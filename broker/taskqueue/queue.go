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

// Config joins a queue to its dependencies.
type Config struct {
	DB     *store.DB
	Signer Signer
	// ReleaseKeys returns the keys in force that verify signed releases of the agent; nil: no
	// release verifies.
	ReleaseKeys func() release.Keys
	Rand        io.Reader   // of task ids and nonces
	Log         *zap.Logger // nil: none
	// Archives says how long collected diagnostics are kept.
	Archives ArchivePolicy
	// Stepped and Ended, if set, are called for each accepted progress and for each task with a
	// result. They must not block.
	Stepped func(ctx context.Context, taskID string, p broker.Progress)
	Ended   func(t broker.Task)
}

// Queue is the life of tasks at the broker. All that must survive a restart is in the store.
type Queue struct {
	c        Config
	waiters  waiters
	idle     idle
	packages contents
	// nodesWithTasks queries the nodes with open tasks.
	nodesWithTasks func(context.Context) ([]string, error)

	probed broker.Task // the last task that ProbeUnknown tried; used by ProbeUnknown only

	missed chan struct{} // hints may have been missed

	mu         sync.Mutex
	lastID     int64                // microseconds in the last task id
	cancelSent map[string]time.Time // task → when its node was last told to stop it
}

// New makes a queue. Waiting polls are woken only while Run runs.
func New(c Config) *Queue {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return &Queue{
		c: c, nodesWithTasks: c.DB.NodesToTell, cancelSent: map[string]time.Time{}, missed: make(chan struct{}, 1),
		packages: contents{filesByDigest: map[string][]taskcatalog.BaselineFile{}},
	}
}

// Run hands hints to waiting polls, and looks itself now and then, until ctx ends. A hint never
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
		q.handleHint(h)
	}
	return ctx.Err()
}

func (q *Queue) handleHint(h store.Hint) {
	switch h.Kind {
	case store.HintTask, store.HintCancel:
		q.idle.clear(h.ID)
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

// Peer is the asking node, by its certificate.
type Peer struct {
	NodeID string
	Epoch  int64
	Serial string
	Key    crypto.PublicKey
	// Certified is when the certificate was issued.
	Certified time.Time
}

// Cancel stops a task: at once if no node has had it, otherwise by asking the node. An ended task
// stays unchanged. Code: task_not_found.
func (q *Queue) Cancel(ctx context.Context, actor broker.Actor, taskID, reason string) (broker.Task, error) {
	return q.c.DB.CancelTask(ctx, actor, taskID, reason)
}

// Sweep requeues or ends tasks whose time is over, and then drops old archives. The leader calls it
// every few seconds.
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
