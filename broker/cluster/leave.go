package cluster

import (
	"context"

	"github.com/hostler/hostler/taskcatalog"
)

// letGo gives a cluster the next order to let a node go, by what the cluster says of it, and returns what
// the cluster says after the order. First the node gets no new work, then, when it has none, the cluster
// forgets it. Whoever asks asks again until the cluster says absent. One order in a question bounds its
// time. What is unknown gets no order.
func letGo(ctx context.Context, a Adapter, node string, is Membership, reason string) (Membership, error) {
	switch is.State {
	case Member, Joining, Down:
		if err := a.Drain(ctx, node, reason); err != nil {
			return Membership{}, err
		}
	case Drained:
		if err := a.Remove(ctx, node); err != nil {
			return Membership{}, err
		}
	default:
		return is, nil
	}
	return a.Membership(ctx, node)
}

// leaveReason is what the cluster shows of a node that leaves.
func leaveReason(plan *taskcatalog.OperationPlan) string {
	return "hostler: operation " + plan.OperationID + " (" + plan.Operation + ")"
}
