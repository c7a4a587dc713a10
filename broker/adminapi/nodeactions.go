package adminapi

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	onboardingrecords "github.com/hostler/hostler/broker/onboarding/records"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog"
)

// nodeActions are the actions on a node. Each is idempotent: a repeated request returns the present
// state.
var nodeActions = map[string]func(*API, context.Context, broker.Node, api.NodeAction) (broker.Node, *broker.Task, error){
	"drain":      (*API).drain,
	"resume":     (*API).resume,
	"quarantine": (*API).quarantine,
	"activate":   (*API).activate,
	"retire":     (*API).retire,
	"remove":     (*API).remove,
}

type actionInput struct {
	NodeInput
	Action string `path:"action" enum:"drain,resume,quarantine,activate,retire,remove"`
	Body   api.NodeAction
}

func (a *API) actOnNode(ctx context.Context, in *actionInput) (*api.NodeActionResult, error) {
	for flag, set := range map[string]bool{"override": in.Body.Override, "force": in.Body.Force} {
		if !set {
			continue
		}
		if err := a.requireRole(ctx, admin, flag+" a node's "+in.Action); err != nil {
			return nil, err
		}
		if _, err := a.reasonFor(ctx, in.Body.Reason, "node."+in.Action, "node/"+taskcatalog.Clean(in.Node, 300),
			in.Action+" with "+flag); err != nil {
			return nil, err
		}
	}
	ctx = withReason(ctx, in.Body.Reason)
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	n, task, err := nodeActions[in.Action](a, ctx, n, in.Body)
	if err != nil {
		return nil, err
	}
	out := &api.NodeActionResult{Node: a.changedNode(ctx, n)}
	if task != nil {
		t := taskResource(*task, n.Hostname)
		out.Task = &t
	}
	return out, nil
}

// drain lets no new tenant in and has the node end its running work. When the task succeeds, the
// node becomes retired.
func (a *API) drain(ctx context.Context, n broker.Node, in api.NodeAction) (broker.Node, *broker.Task, error) {
	if n.Status == broker.Retired {
		return n, nil, nil
	}
	if err := canRun(n, "node.drain"); err != nil {
		return n, nil, err
	}
	params := fmt.Sprintf(`{"grace_seconds":%d}`, in.GraceSeconds)
	if err := a.checkNotEnding(ctx, n, "node.drain", params); err != nil {
		return n, nil, err
	}
	n, err := a.move(ctx, n, broker.Draining, broker.OwnerOperator, in.Reason)
	if err != nil {
		return n, nil, err
	}
	// The status is set first: a crash before the task leaves a node that lets nobody in, and
	// resume gives the node its task.
	task, err := a.ownTask(ctx, n, "node.drain", params)
	return n, task, err
}

// resume re-issues the lost task of a node that is draining or being removed.
func (a *API) resume(ctx context.Context, n broker.Node, in api.NodeAction) (broker.Node, *broker.Task, error) {
	switch n.Status {
	case broker.Draining:
		return a.drain(ctx, n, in)
	case broker.Removing:
		return a.remove(ctx, n, in)
	}
	return n, nil, broker.Errorf(broker.Refused, "nothing_to_resume",
		"cannot resume node %s: the node is %s, and only a draining or removing node can resume (did you mean activate?)", n.ID, n.Status)
}

// quarantine keeps a node out by a person's decision. If the checks already keep the node out, from
// then on only a person may let it in, and no run.
func (a *API) quarantine(ctx context.Context, n broker.Node, in api.NodeAction) (broker.Node, *broker.Task, error) {
	n, err := a.c.DB.Transition(ctx, callerOf(ctx).actor(), n.ID,
		store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: in.Reason})
	return n, nil, err
}

// resumeDrain makes a node take back the mark of a drain.
const resumeDrain = `{"resume":true}`

// activate makes a node available again. A drain under way is called off, and a drained node is
// told to take back its mark. A node that a run would not let in needs an override.
func (a *API) activate(ctx context.Context, n broker.Node, in api.NodeAction) (broker.Node, *broker.Task, error) {
	if !in.Override {
		switch n.Status {
		case broker.Draining:
			return a.cancelDrain(ctx, n, in)
		case broker.Active, broker.Offline:
			drained, err := a.stillDrained(ctx, n)
			if err != nil {
				return n, nil, err
			}
			if n.Status == broker.Active { // a node that could not be provisioned is let in again
				if n, err = a.c.DB.Transition(ctx, callerOf(ctx).actor(), n.ID, store.Change{
					From: broker.Active, To: broker.Active, By: broker.OwnerOperator, Reason: in.Reason,
				}); err != nil || !drained {
					return n, nil, err
				}
			}
			if drained {
				return a.undrain(ctx, n)
			}
		}
	}
	change := store.Change{To: broker.Active, By: broker.OwnerOperator, Reason: in.Reason}
	if in.Override {
		change.By, change.ClearTurnover = broker.OwnerOverride, true
	}
	var err error
	if change.Hardware, err = onboardingrecords.Hardware(ctx, a.c.DB, n); err != nil {
		return n, nil, err
	}
	if n, err = a.c.DB.Transition(ctx, callerOf(ctx).actor(), n.ID, change); err != nil {
		return n, nil, err
	}
	return a.undrain(ctx, n)
}

// undrain makes a node take back the mark of a drain, if the node may have the mark.
func (a *API) undrain(ctx context.Context, n broker.Node) (broker.Node, *broker.Task, error) {
	if canRun(n, "node.drain") != nil {
		return n, nil, nil
	}
	task, err := a.ownTask(ctx, n, "node.drain", resumeDrain)
	return n, task, err
}

// cancelDrain stops a drain before retirement. The node becomes offline, and active again when its
// agent is heard. The agent is told to take back the mark.
func (a *API) cancelDrain(ctx context.Context, n broker.Node, in api.NodeAction) (broker.Node, *broker.Task, error) {
	err := broker.Transition(n, broker.Offline, broker.OwnerOperator)
	if err == nil {
		err = a.c.DB.NodeInRun(ctx, n, broker.Offline)
	}
	if err == nil {
		err = a.checkLetIn(ctx, n)
	}
	if err != nil {
		return n, nil, err // before the drain task is cancelled
	}
	// The drain task ends first: a crash then leaves a node that lets nobody in, never a node in
	// service whose drain is about to begin.
	if _, err := a.open(ctx, n, "node.drain", resumeDrain); err != nil {
		return n, nil, err
	}
	if n, err = a.move(ctx, n, broker.Offline, broker.OwnerOperator, in.Reason); err != nil {
		return n, nil, err
	}
	return a.undrain(ctx, n)
}

// checkLetIn refuses a node that was never let in: its heartbeats must not bring it into service.
func (a *API) checkLetIn(ctx context.Context, n broker.Node) error {
	was, err := a.c.DB.WasLetIn(ctx, n.ID)
	if err != nil || was {
		return err
	}
	return broker.Errorf(broker.Refused, "not_enrolled",
		"cannot cancel the drain of node %s: the node was never active (wait until the drain ends, or hostler node retire %s --force; then hostler node activate %s checks what is missing)", n.ID, n.ID, n.ID)
}

// stillDrained reports whether a node may still hold the mark of a drain although the node is in
// service, or would be if it were heard. The status changes first, and the task that takes back the
// mark may be lost in a crash or fail.
func (a *API) stillDrained(ctx context.Context, n broker.Node) (bool, error) {
	last, _, err := a.c.DB.ListTasks(ctx, store.TaskFilter{NodeID: n.ID, Type: "node.drain", Limit: 1})
	if err != nil || len(last) == 0 || last[0].NodeEpoch != n.Epoch {
		return false, err
	}
	resumed := sameIntent(last[0].Params, []byte(resumeDrain))
	return !resumed || last[0].Status != broker.TaskSucceeded, nil
}

// retire is a drain that was meant to last. With force, retire takes a node that no longer answers
// out of service without asking the node. For a node being removed, retire takes the removal back.
func (a *API) retire(ctx context.Context, n broker.Node, in api.NodeAction) (broker.Node, *broker.Task, error) {
	if n.Status == broker.Removing {
		return a.cancelRemoval(ctx, n, in)
	}
	if !in.Force {
		return a.drain(ctx, n, in)
	}
	if n.Status == broker.Retired {
		return n, nil, nil
	}
	n, err := a.move(ctx, n, broker.Draining, broker.OwnerOperator, in.Reason)
	if err != nil {
		return n, nil, err
	}
	n, err = a.move(ctx, n, broker.Retired, broker.OwnerDrain, in.Reason)
	return n, nil, err
}

// remove has a retired node uninstall the agent; the task's success deletes the record. A node that
// never enrolled is deleted at once and its certificates are denied. With force the same holds for
// a node that no longer answers.
func (a *API) remove(ctx context.Context, n broker.Node, in api.NodeAction) (broker.Node, *broker.Task, error) {
	switch n.Status {
	case broker.Deleted:
		return n, nil, nil
	case broker.BootstrapIssued, broker.Enrolling:
		if err := a.c.DB.NodeInRun(ctx, n, broker.Deleted); err != nil {
			return n, nil, err // before the certificates are denied
		}
		n, err := a.deleteNode(ctx, n, in.Reason)
		return n, nil, err
	case broker.Retired, broker.Removing:
	default:
		return n, nil, broker.Errorf(broker.Refused, "transition_refused",
			"cannot remove node %s: the node is %s (retire the node first: hostler node retire %s)", n.ID, n.Status, n.ID)
	}
	if !in.Force {
		err := canRun(n, "node.uninstall")
		if err == nil {
			err = a.checkNotEnding(ctx, n, "node.uninstall", `{}`)
		}
		if err != nil {
			return n, nil, err
		}
	}
	n, err := a.move(ctx, n, broker.Removing, broker.OwnerRemoval, in.Reason)
	if err != nil {
		return n, nil, err
	}
	if in.Force {
		n, err = a.deleteNode(ctx, n, in.Reason)
		return n, nil, err
	}
	if err := secrets.ForgetNode(ctx, a.c.Secrets, n.ID); err != nil {
		return n, nil, err
	}
	params := []byte(`{}`)
	if in.AllocationID != "" {
		if params, err = taskcatalog.Encode(taskcatalog.UninstallParams{AllocationID: in.AllocationID}); err != nil {
			return n, nil, err
		}
	}
	task, err := a.ownTask(ctx, n, "node.uninstall", string(params))
	return n, task, err
}

// cancelRemoval takes a removal back; the node is retired as before. If an agent already has the
// task, cancelRemoval only cancels the task and returns it: the task's end then decides, because
// the agent may be uninstalled already. With force, the node is retired at once.
func (a *API) cancelRemoval(ctx context.Context, n broker.Node, in api.NodeAction) (broker.Node, *broker.Task, error) {
	if err := a.c.DB.NodeInRun(ctx, n, broker.Retired); err != nil {
		return n, nil, err // before the removal task is cancelled
	}
	open, err := a.openTasks(ctx, n, "node.uninstall")
	if err != nil {
		return n, nil, err
	}
	for _, t := range open {
		t, err := a.c.Queue.Cancel(ctx, callerOf(ctx).actor(), t.ID, "the removal was canceled")
		if err != nil {
			return n, nil, err
		}
		if !t.Status.Ended() && !in.Force {
			return n, &t, nil
		}
	}
	n, err = a.move(ctx, n, broker.Retired, broker.OwnerOperator, in.Reason)
	return n, nil, err
}

// deleteNode deletes a record and the node's secrets. The certificates are denied first, so that
// credentials left on the machine open nothing.
func (a *API) deleteNode(ctx context.Context, n broker.Node, reason string) (broker.Node, error) {
	if err := a.c.DB.DenyNode(ctx, callerOf(ctx).actor(), n.ID, "node removed"); err != nil {
		return n, err
	}
	if err := secrets.ForgetNode(ctx, a.c.Secrets, n.ID); err != nil {
		return n, err
	}
	return a.move(ctx, n, broker.Deleted, broker.OwnerRemoval, reason)
}

func (a *API) move(ctx context.Context, n broker.Node, to broker.NodeStatus, by broker.Owner, reason string) (broker.Node, error) {
	if n.Status == to {
		return n, nil
	}
	return a.c.DB.Transition(ctx, callerOf(ctx).actor(), n.ID, store.Change{To: to, By: by, Reason: reason})
}

// ownTask gives a node the task that belongs to its status, or returns the open one. Only drain and
// uninstall end the work of other tasks of the same type, so an open task with other params is
// cancelled first.
func (a *API) ownTask(ctx context.Context, n broker.Node, taskType, params string) (*broker.Task, error) {
	who := callerOf(ctx)
	if had, err := a.open(ctx, n, taskType, params); err != nil || had != nil {
		return had, err
	}
	task, _, err := a.c.Queue.Enqueue(ctx, who.actor(), taskqueue.Request{
		NodeID: n.ID, Type: taskType, Params: []byte(params), CorrelationID: who.correlationID, TraceParent: traceParent(ctx),
	})
	return &task, err
}

// checkNotEnding refuses to begin a task again while its cancelled predecessor has not ended,
// because that end still moves the node. Code: task_ending.
func (a *API) checkNotEnding(ctx context.Context, n broker.Node, taskType, params string) error {
	open, err := a.openTasks(ctx, n, taskType)
	for _, t := range open {
		if t.CancelRequested && sameIntent(t.Params, []byte(params)) {
			return broker.Errorf(broker.Refused, "task_ending",
				"cannot begin %s of node %s again: task %s was canceled, and the agent has not reported its end yet (hostler task watch %s, then try again)", taskType, n.ID, t.ID, t.ID)
		}
	}
	return err
}

// open finds the open task with these params, and cancels the open tasks with other params.
func (a *API) open(ctx context.Context, n broker.Node, taskType, params string) (*broker.Task, error) {
	open, err := a.openTasks(ctx, n, taskType)
	if err != nil {
		return nil, err
	}
	for _, t := range open {
		if sameIntent(t.Params, []byte(params)) {
			return &t, nil
		}
		if _, err := a.c.Queue.Cancel(ctx, callerOf(ctx).actor(), t.ID, "superseded by "+taskType); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (a *API) openTasks(ctx context.Context, n broker.Node, taskType string) ([]broker.Task, error) {
	open, _, err := a.c.DB.ListTasks(ctx, store.TaskFilter{
		NodeID: n.ID, Type: taskType, Statuses: []broker.TaskStatus{broker.TaskQueued, broker.TaskDispatched},
	})
	return open, err
}

// sameIntent reports whether two drains both begin or both take back. All uninstalls have the same
// intent.
func sameIntent(a, b []byte) bool {
	var x, y struct {
		Resume bool `json:"resume"`
	}
	return unmarshal(a, &x) && unmarshal(b, &y) && x == y
}

// canRun refuses a task that the node's agent does not support.
func canRun(n broker.Node, taskType string) error {
	t, err := taskcatalog.Latest(taskType)
	if err != nil {
		return err
	}
	for _, id := range n.TaskTypes {
		if id == t.ID() {
			return nil
		}
	}
	return broker.Errorf(broker.Refused, "task_type_unsupported",
		"cannot ask node %s for %s: its agent does not support this task (remove a node that never enrolled; retire a node that no longer answers with --force)", n.ID, t.ID())
}
