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
	// Foreign: the cluster has a node of this name, and nothing proves that it is this one. Another machine may
	// have joined by other means.
	Foreign State = "foreign"
	Unknown State = "unknown" // the cluster's answer is not understood
)

// Membership is a cluster's answer about one node.
type Membership struct {
	State State
	// Words are the cluster's own words for the state, cleaned: IDLE+DRAIN.
	Words string
	// Reason is why the node gets no work, as somebody has told the cluster; cleaned.
	Reason string
	// ID is the cluster's own id of a member, where the node needs it to leave.
	ID     string
	Traits Traits
	// Prove is what a person does who knows that a Foreign record is of this node.
	Prove string
	// Cut names work that the last order has cut off, such as pods by force.
	Cut []string
}

// Node is a node of this broker.
type Node struct {
	Name string // in clusters
	ID   string
}

// DrainOrder is how a node is to lose its work.
type DrainOrder struct {
	Reason string // what the cluster shows
	At     time.Time
	// ForceAfter is how long after the first order of this reason work is cut off; zero: never.
	ForceAfter time.Duration
}

// Adapter asks one cluster.
type Adapter interface {
	// Join returns what the node joins with. What is made for this node alone is of no use after the time.
	// The caller clears the key. Code: cluster_join_unset.
	Join(ctx context.Context, node Node, until time.Time) (taskcatalog.ClusterJoin, error)
	// Membership asks what the cluster says of the node. An error means that the cluster said nothing.
	Membership(ctx context.Context, node Node) (Membership, error)
	// Joined takes back what the node has joined with, if it was made for this node alone.
	Joined(ctx context.Context, node Node) error
	// Drain asks that the node gets no further work and loses what it has, as far as the cluster moves
	// work. It is asked again until the node is drained, and returns what the cluster says by then, and
	// what keeps the node. An adapter whose cluster takes this order from the node alone only asks. Code:
	// cluster_force_unsupported.
	Drain(ctx context.Context, node Node, order DrainOrder) (Membership, error)
	// Remove asks the cluster to forget the node. It does nothing if the node is absent.
	Remove(ctx context.Context, node Node) error
}
