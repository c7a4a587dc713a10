package turnover

import (
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/taskcatalog"
)

// taskLimit is how long a stage may take in all its attempts: its task's own time
// twice, and what a silent node is waited for.
func taskLimit(taskType string) func(Turnover) chain.Limit {
	return func(s Turnover) chain.Limit {
		after := time.Duration(s.Policy.DrainTimeoutSeconds) * time.Second
		if t, err := taskcatalog.Latest(taskType); err == nil {
			after += 2 * t.Deadline
		}
		return chain.Limit{After: after, Class: silent, Code: "agent_silent"}
	}
}

// ask has the node do a task for a stage, once an attempt, and waits until it has
// ended. What ended it but success is a failure of class; a task that nobody took in
// time is the agent's silence.
func (c *Chains) ask(ctx context.Context, r *run, class chain.Class, t Task, whom string) (broker.Task, error) {
	t.Key, t.NodeID, t.RunID = r.Key(), r.State.NodeID, r.ID
	if whom != "" {
		t.Key += "/" + whom
	}
	k, err := c.Nodes.Ask(ctx, t)
	switch {
	case err != nil:
		return k, ours(err)
	case k.Status == broker.TaskQueued:
		return k, chain.Again(soon, "task %s (%s) is queued", k.ID, k.Type)
	case !k.Status.Ended():
		return k, &taken{chain.Again(soon, "task %s (%s) is %s%s", k.ID, k.Type, k.Status, stepOf(k))}
	}
	r.State.done(Done{Stage: r.Stage, ID: k.ID, Type: k.Type, For: whom})
	switch {
	case k.Status == broker.TaskSucceeded:
		return k, nil
	case k.Status == broker.TaskExpired, k.Code == "outcome_unknown":
		return k, chain.Fail(silent, "the agent of node %s did not say how task %s (%s) ended", k.NodeID, k.ID, k.Type).With("agent_silent", detailsOf(k))
	case k.Code == "node_reenrolled":
		return k, chain.Fail(ambiguity, "node %s enrolled again during task %s (%s): what it was asked before is void", k.NodeID, k.ID, k.Type).With("node_reenrolled", detailsOf(k))
	}
	return k, chain.Fail(class, "task %s (%s) ended %s: %s: %s", k.ID, k.Type, k.Outcome, k.Code, k.Message).With(string(k.Code), detailsOf(k))
}

// taken is the wait for a task that its agent has: it ends by the task's own deadline.
type taken struct{ wait error }

func (t *taken) Error() string { return t.wait.Error() }
func (t *taken) Unwrap() error { return t.wait }

func detailsOf(k broker.Task) map[string]any {
	return map[string]any{"task_id": k.ID, "type": k.Type, "status": k.Status, "outcome": k.Outcome, "code": k.Code}
}

// stepOf tells how far a task has come.
func stepOf(k broker.Task) string {
	if k.Progress == nil || k.Progress.CurrentStepName == "" {
		return ""
	}
	return ": " + taskcatalog.Clean(k.Progress.CurrentStepName, 64)
}

// rotate gives the node a new key. What was signed before is no proof of what comes:
// what counts is since when the broker holds the node to its present key.
func (c *Chains) rotate(ctx context.Context, r *run) error {
	if slices.ContainsFunc(r.Waived, func(w chain.Waiver) bool { return w.Stage == "drain_node" }) {
		if err := c.retireDraining(ctx, r, "gone on without a drain"); err != nil {
			return err
		}
	}
	k, err := c.ask(ctx, r, untrusted, Task{Type: "node.rotate_identity", Params: struct{}{}}, "")
	if err != nil {
		return err
	}
	n, err := c.Nodes.Node(ctx, r.State.NodeID)
	switch {
	case err != nil:
		return ours(err)
	case n.IdentitySince.Before(r.State.TakenAt):
		return chain.Fail(untrusted, "node %s says that it has a new key (task %s), and its key is that of %s", n.ID, k.ID, n.IdentitySince.Format(time.RFC3339)).With("identity_not_rotated", detailsOf(k))
	}
	r.Note(map[string]any{"task_id": k.ID, "identity_since": n.IdentitySince}, "the node has a new key")
	return nil
}

// cleanStorage empties what a tenant could have written to.
func (c *Chains) cleanStorage(ctx context.Context, r *run) error {
	k, err := c.ask(ctx, r, residue, Task{Type: "node.storage_cleanup", Params: taskcatalog.StorageCleanupParams{Scope: r.State.StorageCleanup}}, "")
	if err != nil {
		return err
	}
	var result taskcatalog.StorageCleanupResult
	if err := unmarshal(k, &result); err != nil {
		return err
	}
	if result.Failed > 0 {
		r.State.warn("the storage cleanup could not empty %d places (hostler task show %s); the validation says whether it matters", result.Failed, k.ID)
	}
	r.Note(map[string]any{"task_id": k.ID, "files": result.FilesRemoved, "bytes": result.BytesRemoved, "failed": result.Failed}, "%d files with %d bytes were removed", result.FilesRemoved, result.BytesRemoved)
	return nil
}

// live are the allocations whose user may be on the node.
func (c *Chains) live(ctx context.Context, r *run) ([]broker.Allocation, error) {
	all, err := c.Nodes.Allocations(ctx, r.State.NodeID)
	if err != nil {
		return nil, ours(err)
	}
	return slices.DeleteFunc(all, func(a broker.Allocation) bool { return !a.Live() }), nil
}
