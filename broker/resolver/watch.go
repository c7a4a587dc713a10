package resolver

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/internal/periodic"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog"
)

// every is the interval of a Watch's looks.
const every = 2 * time.Second

// Watch delivers wanted sets to nodes. Run one Watch, in the leading process.
type Watch struct {
	DB    *store.DB
	Queue *taskqueue.Queue
	Now   func() time.Time
	Log   *zap.Logger
}

// Run looks until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	periodic.Work{Every: every, AtOnce: true, Turn: w.Look, Log: w.Log, Cannot: "cannot deliver resolver profiles to nodes"}.Run(ctx)
}

// Look advances every want by one step.
func (w *Watch) Look(ctx context.Context) error {
	wants, err := w.DB.ResolverWants(ctx)
	if err != nil || len(wants) == 0 {
		return err
	}
	nodes, _, err := w.DB.ListNodes(ctx, store.NodeFilter{})
	if err != nil {
		return err
	}
	of := map[int64][]broker.Node{}
	behind := map[int64]bool{}
	for _, n := range nodes {
		of[n.ResolverWant] = append(of[n.ResolverWant], n)
		behind[n.ResolverWant] = behind[n.ResolverWant] || n.ResolverWanted != n.ResolverDigest
	}
	holds, err := w.DB.StandingHolds(ctx, nil)
	if err != nil {
		return err
	}
	for _, want := range wants {
		if !behind[want.ID] {
			continue
		}
		if err := w.advance(ctx, want, of[want.ID], freezesOf(holds)); err != nil {
			return err
		}
	}
	return nil
}

func (w *Watch) advance(ctx context.Context, want store.ResolverWant, nodes []broker.Node, frozen freezes) error {
	tasks, err := w.DB.ResolverTasks(ctx, want.ID)
	if err != nil {
		return err
	}
	s := next(w.Now(), want, nodes, tasks, frozen)
	if s.stop != "" {
		w.Log.Error("resolver profiles are sent to no further node", zap.String("version", want.Version),
			zap.String("selector", want.Selector), zap.String("why", s.stop))
		if err := w.DB.StopResolverWant(ctx, broker.System, want, s.stop); err != nil {
			return err
		}
	}
	for _, n := range s.excluded {
		if err := w.quarantine(ctx, want, n, tasks[n.ID]); err != nil {
			return err
		}
	}
	for _, n := range s.assign {
		k, err := requestTask(ctx, w.Queue, want, n.ID, len(tasks[n.ID]))
		if err != nil {
			// A node that cannot be given a task must not block other nodes.
			w.Log.Warn("cannot send a node its resolver profiles", zap.String("node", n.ID), zap.Error(err))
			continue
		}
		w.Log.Info("sent a node its resolver profiles", zap.String("node", n.ID), zap.String("task", k.ID),
			zap.String("version", want.Version))
	}
	return nil
}

// requestTask makes a node's next task for a want; had is the number of earlier tasks. Concurrent
// callers get the same task.
func requestTask(ctx context.Context, queue *taskqueue.Queue, want store.ResolverWant, nodeID string, had int) (broker.Task, error) {
	params, err := taskcatalog.Encode(taskcatalog.ResolverConfigParams{Version: want.Version})
	if err != nil {
		return broker.Task{}, err
	}
	k, _, err := queue.Enqueue(ctx, broker.System, taskqueue.Request{
		NodeID: nodeID, Type: "node.resolver_config", Params: params,
		IdempotencyKey: broker.ResolverKey(want.ID, strconv.Itoa(had+1)),
	})
	return k, err
}

// quarantine quarantines a new node that cannot accept its set, for a person to look at, as for a
// node without a baseline.
func (w *Watch) quarantine(ctx context.Context, want store.ResolverWant, n broker.Node, made []broker.Task) error {
	last := made[len(made)-1]
	_, err := w.DB.Transition(ctx, broker.System, n.ID, store.Change{
		From: broker.Enrolling, To: broker.Quarantined, By: broker.OwnerOnboarding,
		Reason: fmt.Sprintf("no resolver profiles %s: %d tasks ended without them, the last is %s (%s; hostler task show %s shows why; then hostler resolver push or rollback, and hostler node activate %s)",
			want.Version, len(made), last.ID, taskcatalog.Clean(string(last.Code), 64), last.ID, n.ID),
	})
	return err
}
