package taskstage

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/taskcatalog"
)

// Task is a task that a run asks a node for.
type Task struct {
	Key    string // idempotency key: the same key is the same task
	NodeID string
	Type   string // name in the task catalog
	Params any    // of that type
	RunID  string // the run, which is the task's correlation
	// TraceParent is the trace context of what the task is a part of; empty: none.
	TraceParent broker.TraceParent
}

// Tasks gives nodes the tasks of runs.
type Tasks interface {
	// Request gives the node a task, once for each key, and returns its present state.
	Request(ctx context.Context, t Task) (broker.Task, error)
	// Withdraw cancels the run's open tasks on the node. The answer is all tasks that the run
	// ever asked the node for, in their present state: a task that an agent has begun ends only
	// by the agent.
	Withdraw(ctx context.Context, nodeID, runID, reason string) ([]broker.Task, error)
}

const (
	// pollPause is when a task that has not ended is looked at again.
	pollPause = 2 * time.Second
	// afterOutage is when unreadable records are read again.
	afterOutage = 10 * time.Second
)

// Failure classes of no particular stage.
const (
	silent    = chain.Class(broker.AgentSilent)
	ambiguity = chain.StateAmbiguity
)

// Await asks for a task and waits until it has ended, with any outcome. Until then the error
// tells the engine to call the stage again.
func Await(ctx context.Context, tasks Tasks, t Task) (broker.Task, error) {
	k, err := tasks.Request(ctx, t)
	switch {
	case err != nil:
		return k, Records(err)
	case k.Status == broker.TaskQueued:
		return k, chain.Again(pollPause, "task %s (%s) is queued", k.ID, k.Type)
	case !k.Status.Ended():
		return k, &working{chain.Again(pollPause, "task %s (%s) is %s%s", k.ID, k.Type, k.Status, step(k))}
	}
	return k, nil
}

// working is the wait for a task that its agent has taken.
type working struct{ wait error }

func (w *working) Error() string { return w.wait.Error() }
func (w *working) Unwrap() error { return w.wait }

// Working reports whether an error of Await is the wait for a task that its agent has taken. Such
// a wait ends by the task's own deadline, and the agent is not silent.
func Working(err error) bool {
	_, works := errors.AsType[*working](err)
	return works
}

// step is the present step of a task.
func step(k broker.Task) string {
	if k.Progress == nil || k.Progress.CurrentStepName == "" {
		return ""
	}
	return ": " + taskcatalog.Clean(k.Progress.CurrentStepName, 64)
}

// Judge is the failure of an ended task, or nil if the task succeeded. A failure reported by the
// agent has the given class.
func Judge(k broker.Task, class chain.Class) error {
	switch {
	case k.Status == broker.TaskSucceeded:
		return nil
	case k.Status == broker.TaskExpired, k.Code == "outcome_unknown":
		return chain.Fail(silent, "the agent of node %s did not report the outcome of task %s (%s)", k.NodeID, k.ID,
			k.Type).With("agent_silent", Details(k))
	case k.Code == "node_reenrolled":
		return chain.Fail(ambiguity, "node %s enrolled again during task %s (%s), which cancels the node's earlier tasks", k.NodeID, k.ID,
			k.Type).With("node_reenrolled", Details(k))
	}
	code := cmp.Or(string(k.Code), "task_"+string(k.Status))
	return chain.Fail(class, "task %s (%s) ended %s: %s: %s", k.ID, k.Type, cmp.Or(string(k.Outcome), string(k.Status)), code,
		taskcatalog.Clean(k.Message, 500)).
		With(code, Details(k))
}

// Details are the details of a failure caused by a task.
func Details(k broker.Task) map[string]any {
	return map[string]any{"task_id": k.ID, "type": k.Type, "status": k.Status, "outcome": k.Outcome, "code": k.Code}
}

// Records turns an error of the broker's own records into the end of a step: the stage waits out
// an outage, and a refusal fails the run.
func Records(err error) error {
	switch e := broker.AsError(err); {
	case err == nil:
		return nil
	case e.Kind == broker.Unavailable:
		return chain.AgainFor(chain.UpstreamTransient, afterOutage, "%v", err)
	case e.Kind == broker.Invalid || e.Kind == broker.NotFound || e.Kind == broker.Refused || e.Kind == broker.Forbidden:
		return chain.Fail(chain.Class(broker.InputConfigError), "%w", err).With(e.Code, nil)
	}
	return err
}
