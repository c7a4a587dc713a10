package turnover

import (
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// taskLimit is the limit of a stage over all attempts: twice the deadline of its task, and the
// time allowed for a silent node.
func taskLimit(taskType string) func(Turnover) chain.Limit {
	return func(s Turnover) chain.Limit {
		after := time.Duration(s.Policy.DrainTimeoutSeconds) * time.Second
		if t, err := taskcatalog.Latest(taskType); err == nil {
			after += 2 * t.Deadline
		}
		return chain.Limit{After: after, Class: silent, Code: "agent_silent"}
	}
}

// request has the node do a task for a stage, once an attempt, and waits for its end. A failed task
// is a failure of class.
func (c *Chains) request(ctx context.Context, r *run, class chain.Class, t taskstage.Task, whom string) (broker.Task, error) {
	t.Key, t.NodeID, t.RunID = r.Key(), r.State.NodeID, r.ID
	if whom != "" {
		t.Key += "/" + whom
	}
	k, err := taskstage.Await(ctx, c.Nodes, t)
	if err != nil {
		return k, err
	}
	r.State.done(Done{Stage: r.Stage, ID: k.ID, Type: k.Type, For: whom})
	return k, taskstage.Judge(k, class)
}

// rotate gives the node a new key. Earlier signatures prove nothing about later work: only the
// time since which the broker accepts the present key counts.
func (c *Chains) rotate(ctx context.Context, r *run) error {
	if slices.ContainsFunc(r.Waived, func(w chain.Waiver) bool { return w.Stage == "drain_node" }) {
		if err := c.retireDraining(ctx, r, "continued without a drain"); err != nil {
			return err
		}
	}
	k, err := c.request(ctx, r, untrusted, taskstage.Task{Type: "node.rotate_identity", Params: struct{}{}}, "")
	if err != nil {
		return err
	}
	n, err := c.Nodes.Node(ctx, r.State.NodeID)
	switch {
	case err != nil:
		return taskstage.Records(err)
	case n.IdentitySince.Before(r.State.TakenAt):
		return chain.Fail(untrusted, "node %s reports a new key (task %s), and its certified key dates from %s", n.ID, k.ID,
			n.IdentitySince.Format(time.RFC3339)).With("identity_not_rotated", taskstage.Details(k))
	}
	r.Note(map[string]any{"task_id": k.ID, "identity_since": n.IdentitySince}, "the node has a new key")
	return nil
}

// cleanStorage empties the places in the run's cleanup scope that a tenant could have written to.
// A place that cannot be emptied is a warning, not a failure: the validation decides.
func (c *Chains) cleanStorage(ctx context.Context, r *run) error {
	k, err := c.request(ctx, r, residue, taskstage.Task{
		Type:   "node.storage_cleanup",
		Params: taskcatalog.StorageCleanupParams{Scope: r.State.StorageCleanup},
	}, "")
	if err != nil {
		return err
	}
	var result taskcatalog.StorageCleanupResult
	if err := unmarshal(k, &result); err != nil {
		return err
	}
	if result.Failed > 0 {
		r.State.warn("the storage cleanup could not empty %d places (hostler task show %s); the validation judges them", result.Failed,
			k.ID)
	}
	r.Note(map[string]any{"task_id": k.ID, "files": result.FilesRemoved, "bytes": result.BytesRemoved, "failed": result.Failed},
		"%d files with %d bytes were removed", result.FilesRemoved, result.BytesRemoved)
	return nil
}

// live are the allocations whose user may be on the node.
func (c *Chains) live(ctx context.Context, r *run) ([]broker.Occupant, error) {
	all, err := c.Nodes.Occupants(ctx, r.State.NodeID)
	if err != nil {
		return nil, taskstage.Records(err)
	}
	return slices.DeleteFunc(all, func(a broker.Occupant) bool { return !a.Live() }), nil
}
