package slurm

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cluster"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// nodeName is the form of the names that the adapter takes: neither a list nor a range.
var nodeName = lazyregexp.New(`^[a-z0-9][a-z0-9.-]{0,62}$`)

// everyNode is Slurm's word for all nodes, in any case.
const everyNode = "all"

// maxReason bounds what is told of a reason, in bytes.
const maxReason = 200

// Cluster is one Slurm cluster.
type Cluster struct {
	name, controller, auth string
	join                   []byte
	rest                   *rest
}

// New returns the adapter of a cluster. It opens no connection.
func New(c broker.Cluster, a cluster.Access) cluster.Adapter {
	return &Cluster{name: c.Name, controller: c.Controller, auth: c.JoinAuth, join: a.JoinSecret, rest: newREST(c, a.Token)}
}

// Join implements cluster.Adapter: it returns the key that all members share, which has no end.
func (c *Cluster) Join(_ context.Context, node cluster.Node, _ time.Time) (taskcatalog.ClusterJoin, error) {
	if err := c.named(node.Name); err != nil {
		return taskcatalog.ClusterJoin{}, err
	}
	if len(c.join) == 0 {
		return taskcatalog.ClusterJoin{}, broker.Errorf(broker.Refused, "cluster_join_unset",
			"no node can join cluster %s: no join secret is stored with it (set it: hostler help cluster set)", c.name)
	}
	return taskcatalog.ClusterJoin{Node: node.Name, Controller: c.controller, Auth: c.auth, Key: bytes.Clone(c.join)}, nil
}

// Membership implements cluster.Adapter.
func (c *Cluster) Membership(ctx context.Context, node cluster.Node) (cluster.Membership, error) {
	if err := c.named(node.Name); err != nil {
		return cluster.Membership{}, err
	}
	is, err := c.look(ctx, node.Name)
	if err != nil || is.State != cluster.Draining {
		return is, err
	}
	// Its last job may have ended since the controller has counted.
	if err := c.rest.recount(ctx); err != nil {
		return cluster.Membership{}, err
	}
	return c.look(ctx, node.Name)
}

// look asks for a node once.
func (c *Cluster) look(ctx context.Context, node string) (cluster.Membership, error) {
	a, err := c.rest.get(ctx, node)
	if err != nil {
		return cluster.Membership{}, err
	}
	return judge(a, node), nil
}

// Joined implements cluster.Adapter: the key of all members is not taken back.
func (c *Cluster) Joined(context.Context, cluster.Node) error { return nil }

// Drain implements cluster.Adapter. Jobs that run go on. A node that is draining or drained keeps its
// reason.
func (c *Cluster) Drain(ctx context.Context, node cluster.Node, order cluster.DrainOrder) (cluster.Membership, error) {
	reason := strings.TrimSpace(taskcatalog.Clean(order.Reason, maxReason))
	switch {
	case reason == "":
		return cluster.Membership{}, broker.Errorf(broker.Invalid, "reason_missing",
			"cannot drain %s of cluster %s: no reason is given", node.Name, c.name)
	case order.ForceAfter > 0:
		return cluster.Membership{}, broker.Errorf(broker.Invalid, "cluster_force_unsupported",
			"cannot drain %s of cluster %s by force: jobs of Slurm are never cut off (leave force_after out of the step)", node.Name, c.name)
	}
	is, err := c.Membership(ctx, node)
	switch {
	case err != nil, is.State == cluster.Draining, is.State == cluster.Drained:
		return is, err
	case is.State == cluster.Absent || is.State == cluster.Unknown:
		return cluster.Membership{}, c.not("drain", node.Name, is)
	}
	if err := c.rest.drain(ctx, node.Name, reason); err != nil {
		return cluster.Membership{}, err
	}
	return c.Membership(ctx, node)
}

// Remove implements cluster.Adapter.
func (c *Cluster) Remove(ctx context.Context, node cluster.Node) error {
	is, err := c.Membership(ctx, node)
	switch {
	case err != nil:
		return err
	case is.State == cluster.Absent:
		return nil
	case is.State == cluster.Unknown:
		return c.not("remove", node.Name, is)
	}
	return c.rest.remove(ctx, node.Name)
}

func (c *Cluster) not(verb, node string, is cluster.Membership) error {
	return broker.Errorf(broker.Refused, "cluster_node_unknown", "cannot %s %s of cluster %s: the cluster says %s of it (%s)",
		verb, node, c.name, is.State, is.Words)
}

// named refuses a name that Slurm could read as other nodes. Code: cluster_node_invalid.
func (c *Cluster) named(node string) error {
	if !nodeName.MatchString(node) || node == everyNode {
		return broker.Errorf(broker.Invalid, "cluster_node_invalid",
			"cannot ask cluster %s about %q: that is no plain name of one node (give the machine a host name of a-z, 0-9, '.' and '-')",
			c.name, taskcatalog.Clean(node, 64))
	}
	return nil
}
