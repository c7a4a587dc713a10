package k8s

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cluster"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// nodeName is the form of the names that the adapter takes.
var nodeName = lazyregexp.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Cluster is one Kubernetes cluster.
type Cluster struct {
	name, controller, auth, ca string
	rest                       *rest
}

// New returns the adapter of a cluster. It opens no connection.
func New(c broker.Cluster, a cluster.Access) cluster.Adapter {
	return &Cluster{name: c.Name, controller: c.Controller, auth: c.JoinAuth, ca: c.CACert, rest: newREST(c, a.Token)}
}

func nodePath(name string) string { return "/api/v1/nodes/" + url.PathEscape(name) }

// Membership implements cluster.Adapter.
func (c *Cluster) Membership(ctx context.Context, of cluster.Node) (cluster.Membership, error) {
	_, is, err := c.look(ctx, of)
	if err != nil || is.State != cluster.Draining {
		return is, err
	}
	pods, err := c.work(ctx, of.Name)
	if err != nil {
		return cluster.Membership{}, err
	}
	if len(pods) == 0 {
		is.State = cluster.Drained
		return is, nil
	}
	is.Words = taskcatalog.Clean(fmt.Sprintf("%s; pods: %d", is.Words, len(pods)), maxWords)
	return is, nil
}

// look asks for a node once. Of a node that is cordoned it says draining.
func (c *Cluster) look(ctx context.Context, of cluster.Node) (*node, cluster.Membership, error) {
	name := of.Name
	if err := c.named(name); err != nil {
		return nil, cluster.Membership{}, err
	}
	var n node
	s, err := c.rest.ask(ctx, http.MethodGet, nodePath(name), "", nil, &n)
	switch {
	case err != nil:
		return nil, cluster.Membership{}, err
	case s == nil:
		return &n, judge(&n, of), nil
	case s.code == http.StatusNotFound && s.about("NotFound", "nodes", name):
		return nil, cluster.Membership{State: cluster.Absent, Words: "no such node"}, nil
	case s.code == http.StatusNotFound:
		return nil, cluster.Membership{State: cluster.Unknown, Words: "the answer says that something else is not there"}, nil
	}
	return nil, cluster.Membership{}, c.rest.said(s)
}

// known returns a node that an order may reach. Codes: cluster_node_unknown, cluster_node_refused,
// cluster_node_unproven.
func (c *Cluster) known(ctx context.Context, verb string, of cluster.Node) (*node, cluster.Membership, error) {
	name := of.Name
	n, is, err := c.look(ctx, of)
	switch {
	case err != nil:
		return nil, is, err
	case is.State == cluster.Absent || is.State == cluster.Unknown:
		return nil, is, c.not(verb, name, is)
	case n.controls():
		return nil, is, broker.Errorf(broker.Refused, "cluster_node_refused",
			"cannot %s %s of cluster %s: it is a node of the control plane, which kubeadm alone should take out", verb, name, c.name)
	case is.State == cluster.Foreign:
		return nil, is, cluster.Unproven(verb, c.name, of, is)
	}
	return n, is, nil
}

// Remove implements cluster.Adapter: it deletes the node, and what is left of its token. A node that is
// not drained keeps its work.
func (c *Cluster) Remove(ctx context.Context, of cluster.Node) error {
	name := of.Name
	n, is, err := c.known(ctx, "remove", of)
	switch {
	case is.State == cluster.Absent:
		return nil
	case err != nil:
		return err
	case is.State != cluster.Draining:
		return c.not("remove", name, is)
	}
	// The version of the node keeps this order from a node that was uncordoned after its pods were counted.
	if pods, err := c.work(ctx, name); err != nil || len(pods) > 0 {
		return cmp.Or(err, c.not("remove", name, is))
	}
	if err := c.Joined(ctx, of); err != nil {
		return err
	}
	return c.rest.remove(ctx, nodePath(name), "nodes", name, options{
		Preconditions: preconditions{UID: n.Metadata.UID, ResourceVersion: n.Metadata.ResourceVersion},
	})
}

func (c *Cluster) not(verb, name string, is cluster.Membership) error {
	return broker.Errorf(broker.Refused, "cluster_node_unknown", "cannot %s %s of cluster %s: the cluster says %s of it (%s)",
		verb, name, c.name, is.State, is.Words)
}

// named refuses what is no name of a node. Code: cluster_node_invalid.
func (c *Cluster) named(name string) error {
	if !nodeName.MatchString(name) {
		return broker.Errorf(broker.Invalid, "cluster_node_invalid",
			"cannot ask cluster %s about %q: that is no plain name of a node (give the machine a host name of a-z, 0-9 and '-')",
			c.name, taskcatalog.Clean(name, 64))
	}
	return nil
}
