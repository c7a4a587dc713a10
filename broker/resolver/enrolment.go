package resolver

import (
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
)

// AtEnrolment returns the task with a node's assigned set, complete, for the answer to the node's
// enrolment. The task is queued as any other, and equals the task that a Watch would make, so that
// no second task is made. A repeated call for the same enrolment returns the same task. ok is false
// if there is nothing to carry: no set is assigned, a Watch decides when the node gets it, or the
// task could no longer start in time.
func AtEnrolment(
	ctx context.Context, db *store.DB, queue *taskqueue.Queue, now time.Time, n broker.Node,
) (k broker.Task, ok bool, err error) {
	if n.ResolverWant == 0 {
		return k, false, nil
	}
	wants, err := db.ResolverWants(ctx)
	if err != nil {
		return k, false, err
	}
	i := slices.IndexFunc(wants, func(w store.ResolverWant) bool { return w.ID == n.ResolverWant })
	if i < 0 {
		return k, false, nil // another want has just replaced this want
	}
	made, err := db.NodeResolverTasks(ctx, n.ID, n.ResolverWant)
	if err != nil {
		return k, false, err
	}
	if this := ofEpoch(n.Epoch, made); len(this) > 0 && !this[len(this)-1].Status.Ended() {
		k = this[len(this)-1]
	} else if mayCarry(now, n, made) {
		k, err = requestTask(ctx, queue, wants[i], n.ID, len(made))
	} else {
		return k, false, nil
	}
	if err == nil {
		k, err = db.Task(ctx, k.ID)
	}
	return k, err == nil && k.NodeEpoch == n.Epoch && !k.Status.Ended() && !k.CancelRequested && now.Before(k.NotAfter), err
}

// mayCarry reports whether a node gets its set with its enrolment, without waiting for a wave:
// while it is enrolling, and after a reinstallation if it accepted the set before by the same want.
func mayCarry(now time.Time, n broker.Node, made []broker.Task) bool {
	if n.Status == broker.Enrolling {
		return mayEnrol(now, n, ofEpoch(n.Epoch, made))
	}
	return slices.Contains(n.TaskTypes, taskType) &&
		slices.ContainsFunc(made, func(k broker.Task) bool { return k.Status == broker.TaskSucceeded })
}
