package taskqueue_test

import (
	"context"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

func askFor(n node, run, key string) taskstage.Task {
	return taskstage.Task{Key: key, NodeID: n.Peer.NodeID, Type: "node.heartbeat_check", Params: taskcatalog.HeartbeatCheckParams{}, RunID: run}
}

func TestATaskIsAskedForOnce(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("g1")
		first, err := w.queue.Request(ctx, askFor(n, "r", "r/check/1"))
		w.ok(err)
		again, err := w.queue.Request(ctx, askFor(n, "r", "r/check/1"))
		w.ok(err)
		if first.ID != again.ID || first.CorrelationID != "r" || first.EnqueuedBy != broker.System.Name {
			t.Errorf("asked for %+v, then %s", first, again.ID)
		}
		other, err := w.queue.Request(ctx, askFor(n, "r", "r/check/2"))
		w.ok(err)
		if other.ID == first.ID {
			t.Error("another attempt has the task of the one before")
		}
	})
}

// A run withdraws its own tasks, and none of another run's. Ended tasks are returned with their
// end, and are not requested again.
func TestARunWithdrawsItsOwnTasks(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("g1")
		mine, err := w.queue.Request(ctx, askFor(n, "r", "r/check/1"))
		w.ok(err)
		theirs, err := w.queue.Request(ctx, askFor(n, "s", "s/check/1"))
		w.ok(err)
		for range 2 {
			all, err := w.queue.Withdraw(ctx, n.Peer.NodeID, "r", "no more")
			w.ok(err)
			if len(all) != 1 || all[0].ID != mine.ID || all[0].Status != broker.TaskCanceled {
				t.Errorf("withdrawn is %+v", all)
			}
		}
		gone, err := w.queue.Request(ctx, askFor(n, "r", "r/check/1"))
		w.ok(err)
		if gone.ID != mine.ID || gone.Status != broker.TaskCanceled {
			t.Errorf("it is %+v", gone)
		}
		if k, err := w.db.Task(ctx, theirs.ID); err != nil || k.Status != broker.TaskQueued {
			t.Errorf("another run's task is %s, %v", k.Status, err)
		}
	})
}

// A withdrawal that cannot continue reports the failure, and reports nothing untrue about the
// remaining tasks.
func TestAWithdrawalThatFailsTellsHowTasksStand(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("g1")
		mine, err := w.queue.Request(ctx, askFor(n, "r", "r/check/1"))
		w.ok(err)
		over, cancel := context.WithCancel(ctx)
		cancel()
		all, err := w.queue.Withdraw(over, n.Peer.NodeID, "r", "no more")
		if err == nil {
			t.Error("a withdrawal that was cut off succeeded")
		}
		for _, k := range all {
			if k.ID != mine.ID || k.Status != broker.TaskQueued {
				t.Errorf("told of %+v", k)
			}
		}
		if k, err := w.db.Task(ctx, mine.ID); err != nil || k.Status != broker.TaskQueued {
			t.Errorf("it is %s, %v", k.Status, err)
		}
	})
}
