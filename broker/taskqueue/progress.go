package taskqueue

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

const (
	maxStepName = 128
	maxSteps    = 10000
)

// Progress renews the lease, stores the node's progress, and answers with the tasks that the node
// is to stop. Codes: bad_progress, task_not_found, task_ended, attempt_superseded.
func (q *Queue) Progress(ctx context.Context, p Peer, taskID string, r wire.ProgressRequest) (wire.ProgressReply, error) {
	switch r.StepStatus {
	case "running", "succeeded", "failed":
	default:
		return wire.ProgressReply{}, broker.Errorf(broker.Invalid, "bad_progress",
			"cannot accept progress of task %s: step_status is not one of running, succeeded, failed", taskID)
	}
	if r.CurrentStepIndex < 0 || r.TotalSteps < 0 || r.TotalSteps > maxSteps || r.CurrentStepIndex > r.TotalSteps || r.StepPercent < 0 ||
		r.StepPercent > 100 {
		return wire.ProgressReply{}, broker.Errorf(broker.Invalid, "bad_progress",
			"cannot accept progress of task %s: step %d of %d at %d %%", taskID, r.CurrentStepIndex, r.TotalSteps, r.StepPercent)
	}
	progress := broker.Progress{
		CurrentStepIndex: r.CurrentStepIndex, TotalSteps: r.TotalSteps, CurrentStepName: taskcatalog.Clean(r.CurrentStepName, maxStepName),
		StepStatus: r.StepStatus, StepStartedAt: r.StepStartedAt.UTC(), StepPercent: r.StepPercent,
		Message: taskcatalog.Clean(r.Message, taskcatalog.MaxText),
	}
	lease, cancel, err := q.c.DB.RecordProgress(ctx, p.NodeID, taskID, r.Attempt, progress)
	if err == nil && q.c.Stepped != nil {
		q.c.Stepped(ctx, taskID, progress)
	}
	return wire.ProgressReply{LeaseUntil: lease, Cancel: cancel}, err
}
