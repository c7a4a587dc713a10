package taskqueue

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	// recoverWithin is how long a task with an unknown end may be recovered: a node's report
	// about an older task says nothing about the present.
	recoverWithin = 24 * time.Hour
	// probeGood is how long a probe counts.
	probeGood = 15 * time.Minute
)

// ambiguous are the codes of tasks that may have been done in part or whole.
var ambiguous = []taskcatalog.Code{taskcatalog.CodeInterrupted, taskcatalog.CodeOutcomeUnknown}

// probesOf is the correlation of a task's probes.
func probesOf(taskID string) string { return "probe-of-" + taskID }

// Probe asks the node of a task for its knowledge of the task and for the present state. Codes:
// task_not_found, task_not_delivered, node_changed, and those of Enqueue.
func (q *Queue) Probe(ctx context.Context, actor broker.Actor, taskID string) (broker.Task, error) {
	k, err := q.c.DB.Asked(ctx, taskID)
	if err != nil {
		return k, err
	}
	if k.Attempt == 0 {
		return k, broker.Errorf(broker.Refused, "task_not_delivered", "cannot probe task %s: the task was never handed to node %s", k.ID,
			k.NodeID)
	}
	if err := q.sameSystem(ctx, k, "probe"); err != nil {
		return k, err
	}
	params, err := taskcatalog.Encode(taskcatalog.TaskProbeParams{TaskID: k.ID})
	if err != nil {
		return k, err
	}
	probe, _, err := q.Enqueue(ctx, actor, Request{
		NodeID: k.NodeID, Type: "node.task_probe", Params: params,
		CorrelationID: probesOf(k.ID),
	})
	return probe, err
}

// sameSystem refuses to ask a system about a task of the system before.
func (q *Queue) sameSystem(ctx context.Context, k broker.Task, what string) error {
	n, err := q.c.DB.Node(ctx, k.NodeID)
	if err == nil && n.Epoch != k.NodeEpoch {
		err = broker.Errorf(broker.Refused, "node_changed",
			"cannot %s task %s: node %s enrolled again since it received the task (enqueue a new task)", what, k.ID, k.NodeID)
	}
	return err
}

// Recover repeats a task with an unknown end, if a recent probe shows that the task neither runs
// nor was done. A task is recovered once, however often somebody asks. A run recovers its own
// tasks. Codes: task_not_found, task_not_ambiguous, task_too_old, task_of_run, node_changed,
// probe_missing, task_running, task_done, and those of Enqueue.
func (q *Queue) Recover(ctx context.Context, actor broker.Actor, taskID string) (broker.Task, error) {
	k, err := q.c.DB.Asked(ctx, taskID)
	if err != nil {
		return k, err
	}
	refused := func(code, format string, args ...any) (broker.Task, error) {
		return k, broker.Errorf(broker.Refused, code, "cannot recover task %s: "+format, append([]any{k.ID}, args...)...)
	}
	switch now := q.c.DB.Now(); {
	case k.Status != broker.TaskFailed || !slices.Contains(ambiguous, k.Code):
		return refused("task_not_ambiguous",
			"the task's outcome is known: %s %s (only a task that was interrupted, or whose outcome is unknown, can be recovered)",
			k.Status, k.Code)
	case now.Sub(k.EndedAt) > recoverWithin:
		return refused("task_too_old", "the task ended more than %s ago (check the node, and enqueue a new task)", recoverWithin)
	case k.EnqueuedBy == bySystem:
		return refused("task_of_run", "a run of the broker requested the task (retry or resume the run %s)", k.CorrelationID)
	}
	if err := q.sameSystem(ctx, k, "recover"); err != nil {
		return k, err
	}
	if k.Late != nil && !k.Late.Probe && k.Late.Outcome == taskcatalog.OutcomeSucceeded {
		return refused("task_done", "node %s reported afterwards that the task was done (nothing has to be done again)", k.NodeID)
	}
	probe, ok, err := q.lastProbe(ctx, k)
	switch {
	case err != nil:
		return k, err
	case !ok:
		return refused("probe_missing", "the node did not report the task's outcome within %s (hostler task probe %s)", probeGood, k.ID)
	case probe.Running:
		return refused("task_running", "node %s still runs the task (wait, and probe again)", k.NodeID)
	case probe.Outcome == taskcatalog.OutcomeSucceeded:
		return refused("task_done", "node %s reports that the task was done (nothing has to be done again)", k.NodeID)
	}
	again, _, err := q.Enqueue(ctx, actor, Request{
		NodeID: k.NodeID, Type: k.Type, Version: k.Version, Params: k.Params, RetryOf: k.ID, IdempotencyKey: "recover/" + k.ID,
		CorrelationID: k.CorrelationID,
	})
	return again, err
}

// lastProbe is the finding of the newest probe of a task. A probe issued before the task's end, or
// ended more than probeGood ago, does not count.
func (q *Queue) lastProbe(ctx context.Context, k broker.Task) (found taskcatalog.TaskProbeResult, ok bool, err error) {
	page, _, err := q.c.DB.ListTasks(ctx, store.TaskFilter{
		NodeID: k.NodeID, Type: "node.task_probe", CorrelationID: probesOf(k.ID), Statuses: []broker.TaskStatus{broker.TaskSucceeded},
		Limit: 1,
	})
	if err != nil || len(page) == 0 || page[0].IssuedAt.Before(k.EndedAt) || q.c.DB.Now().Sub(page[0].EndedAt) > probeGood {
		return found, false, err
	}
	probe, err := q.c.DB.Task(ctx, page[0].ID)
	if err != nil {
		return found, false, err
	}
	// Anybody who may enqueue tasks may choose a correlation, too: the probed task id counts.
	var asked taskcatalog.TaskProbeParams
	if err := json.Unmarshal(probe.Params, &asked); err != nil || asked.TaskID != k.ID {
		return found, false, err
	}
	return found, true, json.Unmarshal(probe.Result, &found)
}
