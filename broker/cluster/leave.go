package cluster

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// maxForceAfter bounds the time after which work is cut off, in seconds.
const maxForceAfter = 30 * 24 * 3600

// letGo gives a cluster the next order to let a node go, by what the cluster says of it, and returns what
// the cluster says after the order. First the node gets no new work, then, when it has none, the cluster
// forgets it. Whoever asks must ask again until the cluster says absent. One order in a question bounds its
// time. What is unknown gets no order, and neither does what is not proven to be this node.
func letGo(ctx context.Context, a Adapter, node Node, is Membership, order DrainOrder) (Membership, error) {
	switch is.State {
	case Member, Joining, Down, Draining:
		return a.Drain(ctx, node, order)
	case Drained:
		if err := a.Remove(ctx, node); err != nil {
			return Membership{}, err
		}
	default:
		return is, nil
	}
	return a.Membership(ctx, node)
}

// Unproven refuses to act on a record that nothing proves to be of the node. Code: cluster_node_unproven.
func Unproven(verb, cluster string, node Node, is Membership) error {
	return broker.Errorf(broker.Refused, "cluster_node_unproven",
		"cannot %s %s of cluster %s: nothing proves that the record of this name is of node %s (%s), so another machine may have joined by it; "+
			"nothing was changed (if it is another machine, one of both needs another host name; if it is this node, %s, and retry)",
		verb, node.Name, cluster, node.ID, is.Words, is.Prove)
}

// leaveOrder is how a step has its node drained.
func leaveOrder(plan *taskcatalog.OperationPlan, step string, now time.Time) DrainOrder {
	order := DrainOrder{Reason: "hostler: operation " + plan.OperationID + " (" + plan.Operation + ")", At: now}
	for _, s := range plan.Steps {
		if seconds, ok := s.With["force_after"].Literal.(int64); ok && s.ID == step {
			order.ForceAfter = time.Duration(min(seconds, maxForceAfter)) * time.Second
		}
	}
	return order
}
