package cluster

import (
	"context"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// State is what a cluster says of a node.
type State string

// The states. Only Member is good.
const (
	Absent   State = "absent"  // the cluster knows no such node
	Joining  State = "joining" // the cluster knows the node and waits for it
	Member   State = "member"  // the node takes work
	Draining State = "draining"
	Drained  State = "drained" // the node gets no work, and has none
	Down     State = "down"
	Unknown  State = "unknown" // the cluster's answer is not understood
)

// Membership is a cluster's answer about one node.
type Membership struct {
	State State
	// Words are the cluster's own words for the state, cleaned: IDLE+DRAIN.
	Words string
	// Reason is why the node gets no work, as somebody has told the cluster; cleaned.
	Reason string
	// ID is the cluster's own id of a member, where the node needs it to leave.
	ID string
}

// Adapter asks one cluster. Node is the name of a node in the cluster.
type Adapter interface {
	// Join returns what the node joins with. What is made for this node alone is of no use after the time.
	// The caller clears the key. Code: cluster_join_unset.
	Join(ctx context.Context, node string, until time.Time) (taskcatalog.ClusterJoin, error)
	// Membership asks what the cluster says of the node. An error means that the cluster said nothing.
	Membership(ctx context.Context, node string) (Membership, error)
	// Drain asks that the node gets no further work. Work that runs goes on. A node that is draining or
	// drained keeps its reason. An adapter whose cluster takes this order from the node alone does nothing.
	Drain(ctx context.Context, node, reason string) error
	// Remove asks the cluster to forget the node. It does nothing if the node is absent.
	Remove(ctx context.Context, node string) error
}
