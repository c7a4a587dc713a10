package store

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// roomFor refuses an operation with which its kind would work on more allocations of its project at the same time than
// the policy permits. One that the SKU or the project binds to an allocation is never refused: the releases of a project
// would wait for each other.
func (t *tx) roomFor(ctx context.Context, o broker.Operation) error {
	if o.MostRunning == 0 || o.Trigger.Bound() {
		return nil
	}
	name, _, _ := strings.Cut(o.Operation, "@")
	var live int64
	var w sqlkit.Where
	w.Add("project_id = ?", o.ProjectID)
	w.Add("ended_at = 0")
	ofType(&w, name)
	if err := t.QueryRowContext(ctx, `SELECT COALESCE(SUM(width), 0) FROM operations`+w.String(), w.Args...).Scan(&live); err != nil || live+int64(o.Width()) <= o.MostRunning {
		return err
	}
	if o.NodeGroup() {
		return broker.Errorf(broker.Refused, "operation_concurrency_denied",
			"cannot begin %s: it works on %d nodes at once and others on %d, and the policy permits %d (make its batches smaller, or see hostler operation policy explain %s)",
			o.Operation, o.Width(), live, o.MostRunning, name)
	}
	if o.Target == broker.TargetGroup {
		return broker.Errorf(broker.Refused, "operation_concurrency_denied",
			"cannot begin %s: it works on %d allocations at once and others on %d, and the policy permits %d (make its batches smaller, or see hostler operation policy explain %s)",
			o.Operation, o.Width(), live, o.MostRunning, name)
	}
	return broker.Errorf(broker.Refused, "operation_concurrency_denied",
		"cannot begin %s: %d are queued or running, and the policy permits %d (see hostler operation policy explain %s)", o.Operation, live,
		o.MostRunning, name)
}

// holdTarget refuses a target that is not the requester's at this moment, but for members of a group that are known to be
// lost: the run takes no lock of theirs. The row of the target stays locked until the run has its locks.
func (t *tx) holdTarget(ctx context.Context, o broker.Operation, lost []string) error {
	gone := broker.Errorf(broker.Refused, broker.OperationTargetGone, "cannot begin an operation on %s %s: it was changed at the same moment (look, and try again)",
		o.Target, o.TargetID)
	if o.NodeGroup() { // its run takes each node when its batch begins
		return nil
	}
	if o.Target != broker.TargetNode {
		held := 0
		for _, part := range o.Parts() { // by id, as any other who locks several
			a, err := allocation(ctx, t, part.AllocationID, t.ForUpdate())
			if err != nil {
				return err
			}
			switch {
			case slices.Contains(lost, part.AllocationID): // it stays so
			case a.ProjectID != o.ProjectID || a.Status != o.NeedsAllocation() || !slices.Equal(a.NodeIDs, part.NodeIDs):
				return gone
			default:
				held++
			}
		}
		if held == 0 {
			return gone
		}
		return nil
	}
	for _, id := range o.NodeIDs {
		if _, err := node(ctx, t, id, t.ForUpdate()); err != nil {
			return err
		}
		if a, err := liveClaim(ctx, t, id); err != nil || a.ID != "" {
			return errors.Join(err, gone)
		}
	}
	return nil
}

// batchOperation notes how far an operation is. Free nodes are no longer locked for it.
func (t *tx) batchOperation(ctx context.Context, r chain.Record, e broker.BatchOperation) error {
	o, err := t.operationOf(ctx, r, e.ID)
	if err != nil {
		return err
	}
	if _, err = t.ExecContext(ctx, `UPDATE operations SET batch = $1, members = $2, batch_at = CASE WHEN batch = $1 THEN batch_at ELSE $3 END WHERE id = $4`,
		e.Batch, membersOf(e.Members), sqlkit.Micros(t.clock()), o.ID); err != nil {
		return err
	}
	for _, node := range e.Free {
		if err := t.dropNode(ctx, r.ID, node); err != nil {
			return err
		}
		if o.NodeGroup() {
			t.hint(HintNode, node)
		}
	}
	return t.takeNodes(ctx, r, e.Take)
}

// takeNodes locks nodes for a run, but for those that somebody else has: an allocation, a run, or an operation. The row of
// the node stays locked until then, so that no allocation gets the node at the same moment.
func (t *tx) takeNodes(ctx context.Context, r chain.Record, nodes []string) error {
	for _, id := range slices.Sorted(slices.Values(nodes)) { // by id, as any other who locks several
		if _, err := node(ctx, t, id, t.ForUpdate()); broker.AsError(err).Kind == broker.NotFound {
			continue
		} else if err != nil {
			return err
		}
		if a, err := liveClaim(ctx, t, id); err != nil || a.ID != "" {
			if err != nil {
				return err
			}
			continue
		}
		taken, err := t.takeLocks(ctx, r.ID, []string{"node/" + id, "operation/" + id})
		if err == nil && len(taken) > 0 { // half a node is none
			err = t.dropNode(ctx, r.ID, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dropNode takes from a run what it has locked of a node.
func (t *tx) dropNode(ctx context.Context, runID, nodeID string) error {
	_, err := t.ExecContext(ctx, `DELETE FROM chain_locks WHERE run_id = $1 AND name IN ($2, $3)`, runID, "operation/"+nodeID, "node/"+nodeID)
	return err
}

func membersOf(all []broker.OperationMember) string {
	return sqlkit.JSON(append([]broker.OperationMember{}, all...))
}
