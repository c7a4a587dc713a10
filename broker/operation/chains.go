package operation

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

type (
	run   = chain.Run[Work]
	stage = chain.Stage[Work]
)

// Chains builds the list of this package. One value serves a whole broker.
type Chains struct{ Records Records }

// All are the lists of this package.
func (c *Chains) All() []chain.Kind { return []chain.Kind{c.Execution()} }

const (
	// soon is how often tasks are looked at.
	soon = 2 * time.Second
	// longest is how long the tasks of a run can take: the longest deadline of a plan, an hour until a task
	// begins, and the time after which the end of a silent task is unknown.
	longest = 26 * time.Hour
	// engineAway is how long an operation waits for a policy engine that gives no answer, and engineAgain how often it
	// asks meanwhile.
	engineAway  = 5 * time.Minute
	engineAgain = 15 * time.Second
)

// Execution is the list that carries out one attempt of an operation.
func (c *Chains) Execution() chain.Chain[Work] {
	return chain.Chain[Work]{Kind: broker.OperationKind, Form: 2, Stages: []stage{
		{
			Name: "check_target", Do: c.in(c.orCancelled(c.advancing(c.checkTarget))), Undo: c.in(c.cancelled), Retry: again,
			About: about("nothing: the target is to be the requester's", time.Second),
		},
		{
			Name: "run_task", Do: c.in(c.orCancelled(c.advancing(c.runTask))), Undo: c.in(c.cancelled), Retry: again,
			About: about("each node: the steps of the operation", 10*time.Minute),
		},
		{
			Name: "record_result", Do: c.in(c.recordResult), Retry: again,
			About: about("the broker: the rows of the steps, and the operation's status", time.Second),
		},
	}}
}

func again(Work) chain.Retry { return chain.Retry{Attempts: 5, First: 10 * time.Second} }

func about(touches string, d time.Duration) func(Work) chain.About {
	return func(Work) chain.About { return chain.About{Touches: touches, Expected: d} }
}

// in makes a stage of work that is done only while the operation is under way, in the run's attempt.
func (c *Chains) in(do func(context.Context, *run, broker.Operation) error) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		o, err := c.Records.Operation(ctx, r.State.OperationID)
		if err != nil {
			return taskstage.Records(err)
		}
		if o.Status.Ended() || o.RunID != r.ID {
			r.AlreadyDone(nil, "operation %s is %s, in attempt %d", o.ID, o.Status, o.Attempt)
			return nil
		}
		return do(ctx, r, o)
	}
}

// checkTarget looks whether the operation may begin. A refusal goes on to record_result.
func (c *Chains) checkTarget(ctx context.Context, r *run, o broker.Operation) error {
	if err := c.fits(ctx, r, o, o.NodeIDs, true, r.EnteredAt); err != nil {
		return err
	}
	if r.State.Code == "" {
		r.Apply(broker.StartOperation{ID: o.ID})
	}
	return nil
}

// fits notes a refusal in the state. begins: the nodes are about to get their tasks, since a time. The error says
// that the records or the policy engine are away.
func (c *Chains) fits(ctx context.Context, r *run, o broker.Operation, nodes []string, begins bool, since time.Time) error {
	lost, err := c.Records.Check(ctx, o, nodes, begins)
	if err == nil {
		return c.leave(ctx, r, o, lost)
	}
	e := broker.AsError(err)
	if e.Code == broker.PolicyEngineUnreachable { // what is to begin waits, but not for ever
		if waited, err := r.Since(ctx, since); err != nil || waited < engineAway {
			return cmp.Or(err, chain.Again(engineAgain, "%s", e.Message))
		}
	}
	if e.Kind == broker.Refused || e.Kind == broker.NotFound || e.Kind == broker.Invalid {
		r.State.refuse(e)
		return nil
	}
	return taskstage.Records(err)
}

// orLate ends a wait that has lasted longer than the tasks of the batches so far can: the operation fails, its tasks
// are withdrawn, and its nodes are free again.
func (c *Chains) orLate(ctx context.Context, r *run, o broker.Operation, open error) error {
	if open == nil {
		return nil
	}
	waited, err := r.Since(ctx, r.EnteredAt)
	if err != nil || waited < longest*time.Duration(r.State.Batch+1) {
		return cmp.Or(err, open)
	}
	for _, node := range o.NodeIDs {
		if _, err := c.Records.Withdraw(ctx, node, r.ID, "the task lasted longer than an operation may"); err != nil {
			return taskstage.Records(err)
		}
	}
	r.State.refuse(broker.Errorf(broker.Refused, "agent_silent", "a task has not ended %s after its operation began", waited))
	return nil
}

// withdraw cancels the tasks of the run, and waits until all have ended.
func (c *Chains) withdraw(ctx context.Context, r *run, o broker.Operation, reason string) error {
	var open error
	for _, node := range o.NodeIDs {
		all, err := c.Records.Withdraw(ctx, node, r.ID, reason)
		if err != nil {
			return taskstage.Records(err)
		}
		for _, k := range all {
			if !k.Status.Ended() {
				open = chain.Again(soon, "task %s of node %s is %s, and was asked to stop", k.ID, node, k.Status)
			}
		}
	}
	return c.orLate(ctx, r, o, open)
}

// recordResult ends the operation as its tasks did.
func (c *Chains) recordResult(ctx context.Context, r *run, o broker.Operation) error {
	end, err := c.outcome(ctx, r, o)
	if err != nil {
		return err
	}
	return c.end(ctx, r, o, end)
}

// end ends the operation with the statement of its attempt.
func (c *Chains) end(ctx context.Context, r *run, o broker.Operation, end broker.EndOperation) (err error) {
	if end.Statement, end.Receipt, err = c.Records.Statement(ctx, o, end); err != nil {
		return taskstage.Records(err)
	}
	r.Apply(end)
	return nil
}

// orCancelled makes work that somebody can cancel.
func (c *Chains) orCancelled(do func(context.Context, *run, broker.Operation) error) func(context.Context, *run, broker.Operation) error {
	return func(ctx context.Context, r *run, o broker.Operation) error {
		if o.CanceledBy != "" {
			return c.cancelled(ctx, r, o)
		}
		return do(ctx, r, o)
	}
}

// cancelled ends the operation as cancelled: somebody asked for that, or cancelled the run.
func (c *Chains) cancelled(ctx context.Context, r *run, o broker.Operation) error {
	if err := c.withdraw(ctx, r, o, "operation "+o.ID+" was cancelled"); err != nil {
		return err
	}
	end, err := c.outcome(ctx, r, o)
	if err != nil {
		return err
	}
	if end.To != broker.OperationSucceeded || o.Status != broker.OperationRunning {
		end.To, end.Code, end.Message = broker.OperationCanceled, string(taskcatalog.CodeCanceled),
			taskcatalog.Clean("cancelled by "+cmp.Or(o.CanceledBy, "an action on run "+r.ID), 500)
		if o.CanceledBy == broker.System.Name && !o.Trigger.Bound() { // its requester is told why; a person's reason is that person's
			end.Code, end.Message = broker.OperationTargetGone, taskcatalog.Clean("cancelled by the platform: "+o.CancelReason, 500)
		}
	}
	return c.end(ctx, r, o, end)
}

// ProgressEvent announces that an operation came to another step on a node. The data names no node: the
// place counts the nodes of the operation from 1.
const ProgressEvent = "operation.progress"

// tell announces a step of a task when the node comes to it. A node that goes back, or says another status, is
// not heard again: a hostile one could fill the outbox.
func (c *Chains) tell(r *run, o broker.Operation, node string, k broker.Task) {
	p := k.Progress
	if p == nil {
		return
	}
	i := slices.IndexFunc(o.Plan.Steps, func(s taskcatalog.PlannedStep) bool { return s.ID == p.CurrentStepName })
	if i < 0 {
		return // between two steps, or not a step of the plan
	}
	status := taskcatalog.Clean(p.StepStatus, 32)
	if last, _ := strconv.Atoi(r.State.Told[node]); i < last {
		return
	}
	r.State.Told = maps.Clone(r.State.Told)
	if r.State.Told == nil {
		r.State.Told = map[string]string{}
	}
	r.State.Told[node] = strconv.Itoa(i + 1)
	r.Publish(chain.Message{Type: ProgressEvent, Subject: "operation/" + o.ID, Data: map[string]any{
		"operation_id": o.ID, "correlation_id": o.CorrelationID, "project_id": o.ProjectID, "place": slices.Index(o.NodeIDs, node) + 1,
		"current_step_index": i + 1, "total_steps": len(o.Plan.Steps), "current_step_name": o.Plan.Steps[i].ID, "step_status": status,
		"step_started_at": p.StepStartedAt.UTC(), "step_percent": min(max(p.StepPercent, 0), 100),
	}})
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
