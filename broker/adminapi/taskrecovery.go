package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
)

type recoverInput struct {
	TaskInput
	Body api.ReasonBody
}

// probeTask asks the node what it knows of a task. The probe is a task of its own.
func (a *API) probeTask(ctx context.Context, in *recoverInput) (*api.Task, error) {
	return a.onTask(ctx, in, a.c.Queue.Probe)
}

// recoverTask runs a task again whose end nobody knows, after a probe. The caller needs the same
// role as for the task itself.
func (a *API) recoverTask(ctx context.Context, in *recoverInput) (*api.Task, error) {
	return a.onTask(ctx, in, func(ctx context.Context, actor broker.Actor, id string) (broker.Task, error) {
		t, _, err := a.task(ctx, id)
		if err != nil {
			return t, err
		}
		if in.Body.Reason == "" {
			return t, broker.Errorf(broker.Invalid, "reason_missing", "cannot recover task %s without a reason (--reason R)", t.ID)
		}
		if err := a.mayEnqueue(ctx, t.Type); err != nil {
			return t, err
		}
		return a.c.Queue.Recover(ctx, actor, id)
	})
}

func (a *API) onTask(
	ctx context.Context, in *recoverInput, do func(context.Context, broker.Actor, string) (broker.Task, error),
) (*api.Task, error) {
	t, n, err := a.task(ctx, in.Task)
	if err != nil {
		return nil, err
	}
	made, err := do(withReason(ctx, in.Body.Reason), callerOf(ctx).actor(), t.ID)
	if err != nil {
		return nil, err
	}
	out := taskResource(made, n.Hostname)
	return &out, nil
}
