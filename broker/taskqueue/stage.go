package taskqueue

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

var _ taskstage.Tasks = (*Queue)(nil)

// Request implements taskstage.Tasks: the broker itself enqueues the task.
func (q *Queue) Request(ctx context.Context, t taskstage.Task) (broker.Task, error) {
	had, ok, err := q.c.DB.TaskByKey(ctx, t.NodeID, t.Key)
	switch {
	case err != nil:
		return had, err
	case ok && !had.Status.Ended():
		return had, nil
	case ok:
		return q.c.DB.Task(ctx, had.ID)
	}
	params, err := taskcatalog.Encode(t.Params)
	if err != nil {
		return had, err
	}
	k, _, err := q.Enqueue(ctx, broker.System, Request{
		NodeID: t.NodeID, Type: t.Type, Params: params, IdempotencyKey: t.Key,
		CorrelationID: t.RunID, TraceParent: string(t.TraceParent),
	})
	return k, err
}

// MaxTasksOfRun is above the number of a run's tasks on one node: a task for each of its users, and
// for each of its stages, in all attempts.
const MaxTasksOfRun = 10000

// Withdraw implements taskstage.Tasks.
func (q *Queue) Withdraw(ctx context.Context, nodeID, runID, reason string) ([]broker.Task, error) {
	all, _, err := q.c.DB.ListTasks(ctx, store.TaskFilter{NodeID: nodeID, CorrelationID: runID, Limit: MaxTasksOfRun})
	if err != nil {
		return all, err
	}
	for i, k := range all {
		if k.Status.Ended() {
			continue
		}
		now, err := q.Cancel(ctx, broker.System, k.ID, taskcatalog.Clean(reason, 500))
		if err != nil {
			return all, err
		}
		all[i] = now
	}
	return all, nil
}
