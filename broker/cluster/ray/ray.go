package ray

import (
	"bytes"
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cluster"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// nodeName is the form of the names that nodes join with.
var nodeName = lazyregexp.New(`^[a-z0-9][a-z0-9.-]{0,62}$`)

// Cluster is one cluster of Ray.
type Cluster struct {
	record broker.Cluster
	token  []byte // of the nodes
	rest   *rest
}

// New returns the adapter of a cluster. It opens no connection.
func New(c broker.Cluster, a cluster.Access) cluster.Adapter {
	return &Cluster{record: c, token: a.JoinSecret, rest: newREST(c, a.Token)}
}

// Join implements cluster.Adapter: it returns the token that all members share. Code:
// cluster_unprotected, and those of Membership.
func (c *Cluster) Join(ctx context.Context, node cluster.Node, _ time.Time) (taskcatalog.ClusterJoin, error) {
	if err := c.named(node.Name); err != nil {
		return taskcatalog.ClusterJoin{}, err
	}
	if len(c.token) == 0 {
		return taskcatalog.ClusterJoin{}, broker.Errorf(broker.Refused, "cluster_join_unset",
			"no node can join cluster %s: no join secret is stored with it (set it: hostler help cluster set)", c.record.Name)
	}
	if err := c.rest.protected(ctx); err != nil {
		return taskcatalog.ClusterJoin{}, err
	}
	return taskcatalog.ClusterJoin{
		Node: node.Name, ID: node.ID, Controller: c.record.Controller, Auth: c.record.JoinAuth, Key: bytes.Clone(c.token),
	}, nil
}

// Membership implements cluster.Adapter.
func (c *Cluster) Membership(ctx context.Context, node cluster.Node) (cluster.Membership, error) {
	if err := c.named(node.Name); err != nil {
		return cluster.Membership{}, err
	}
	a, err := c.rest.alive(ctx, node.Name)
	if err != nil {
		return cluster.Membership{}, err
	}
	return judge(a, node), nil
}

// Joined implements cluster.Adapter: the token of all members is not taken back.
func (c *Cluster) Joined(_ context.Context, node cluster.Node) error { return c.named(node.Name) }

// Drain implements cluster.Adapter. It gives no order: the dashboard takes none, and the node gives it
// itself.
func (c *Cluster) Drain(ctx context.Context, node cluster.Node, order cluster.DrainOrder) (cluster.Membership, error) {
	if order.ForceAfter > 0 {
		return cluster.Membership{}, broker.Errorf(broker.Invalid, "cluster_force_unsupported",
			"cannot drain %s of cluster %s by force: the broker cuts off no work of Ray (leave force_after out of the step)", node.Name, c.record.Name)
	}
	return c.Membership(ctx, node)
}

// Remove implements cluster.Adapter. Ray forgets its dead nodes by itself, and no other can be removed.
func (c *Cluster) Remove(ctx context.Context, node cluster.Node) error {
	is, err := c.Membership(ctx, node)
	if err == nil && is.State != cluster.Absent {
		err = broker.Errorf(broker.Refused, "cluster_refused", "cannot remove %s of cluster %s: the cluster says %s of it (%s), and Ray forgets "+
			"a node only when its processes have ended (run ray.node.leave on the node)", node.Name, c.record.Name, is.State, is.Words)
	}
	return err
}

// named refuses a name that no node joins with. Code: cluster_node_invalid.
func (c *Cluster) named(node string) error {
	if !nodeName.MatchString(node) {
		return broker.Errorf(broker.Invalid, "cluster_node_invalid",
			"cannot ask cluster %s about %q: that is no plain name of one node (give the machine a host name of a-z, 0-9, '.' and '-')",
			c.record.Name, taskcatalog.Clean(node, 64))
	}
	return nil
}
