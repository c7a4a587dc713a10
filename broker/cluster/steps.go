package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// life is how long a node may use what it joins with, at most.
const life = 15 * time.Minute

// Records are the broker's records.
type Records interface {
	Cluster(ctx context.Context, name string) (broker.Cluster, error)
	Node(ctx context.Context, id string) (broker.Node, error)
	// MemberNameTaken reports whether another node that is not deleted has this name in clusters.
	MemberNameTaken(ctx context.Context, nodeID, name string) (bool, error)
}

// Steps answers steps of operations: with what a node joins a cluster, and with what a cluster says of
// the node.
type Steps struct {
	Records Records
	Secrets Keeper
	// Signed returns the task in an envelope, once the broker's own signature holds.
	Signed func(envelope []byte) (*taskcatalog.Task, error)
	// Backends make the adapter of a cluster, by its backend.
	Backends map[string]func(broker.Cluster, Access) Adapter
	Now      func() time.Time
}

// Of answers a step of an operation's task, of the type cluster_join_token, cluster_membership or
// cluster_leave. The caller must know that the task still belongs to the node. A cluster of another
// project is answered as one that is not there. Codes: credential_refused, cluster_not_found,
// cluster_name_taken, cluster_member_stale, cluster_node_unproven, and those of AccessOf and of the adapter.
func (s *Steps) Of(ctx context.Context, task broker.Task, credentialType, step string) (broker.Minted, error) {
	refuse := func(code, why string) (broker.Minted, error) {
		return broker.Minted{}, broker.Errorf(broker.Forbidden, code, "cannot mint %s for step %q of task %s: %s",
			taskcatalog.Clean(credentialType, 64), taskcatalog.Clean(step, 64), task.ID, why)
	}
	plan, err := s.plan(task)
	if err != nil {
		return refuse("credential_refused", "the task differs from what this broker signed, or is no operation")
	}
	name, backend, ok := asked(plan, credentialType, step)
	if !ok {
		return refuse("credential_refused", "the signed plan has no such step for this type")
	}
	c, err := s.Records.Cluster(ctx, name)
	switch {
	case err != nil && broker.AsError(err).Kind != broker.NotFound:
		return broker.Minted{}, err
	case err != nil, c.ProjectID != plan.ProjectID, c.Backend != backend, s.Backends[c.Backend] == nil:
		return refuse("cluster_not_found", "no "+backend+" cluster of this name serves the operation's project (see hostler cluster list)")
	}
	node, err := s.Records.Node(ctx, task.NodeID)
	if err != nil {
		return broker.Minted{}, err
	}
	member := Node{Name: memberName(node), ID: node.ID}
	switch taken, err := s.Records.MemberNameTaken(ctx, node.ID, member.Name); {
	case err != nil:
		return broker.Minted{}, err
	case taken:
		return refuse("cluster_name_taken", "another node has the same name in clusters, which is the first part of a host name, so an answer "+
			"of the cluster may be about that node (a platform administrator gives one of them another host name, or removes the record of one that is gone)")
	}
	access, err := AccessOf(ctx, s.Secrets, c)
	if err != nil {
		return broker.Minted{}, err
	}
	defer clear(access.JoinSecret)
	return s.answer(ctx, s.Backends[c.Backend](c, access), c, credentialType, member, leaveOrder(plan, step, s.Now()), wanted(plan, step))
}

// answer asks the adapter.
func (s *Steps) answer(
	ctx context.Context, a Adapter, c broker.Cluster, credentialType string, node Node, order DrainOrder, w wants,
) (broker.Minted, error) {
	made := broker.Minted{Expires: s.Now().Add(life)}
	var answer any
	if credentialType == taskcatalog.CredentialClusterJoin {
		if err := notThere(ctx, a, c, node); err != nil {
			return broker.Minted{}, err
		}
		join, err := a.Join(ctx, node, made.Expires)
		if err != nil {
			return broker.Minted{}, err
		}
		defer clear(join.Key)
		made.Opens = "join cluster " + c.Name + " as " + node.Name
		answer = join
	} else {
		is, err := a.Membership(ctx, node)
		is = w.hold(is)
		switch {
		case err == nil && is.State == Foreign:
			err = Unproven("speak for", c.Name, node, is)
		case err == nil && credentialType == taskcatalog.CredentialClusterLeave:
			is, err = letGo(ctx, a, node, is, order)
		case err == nil && is.State == Member:
			err = a.Joined(ctx, node)
		}
		if err != nil {
			return broker.Minted{}, err
		}
		made.Opens = fmt.Sprintf("cluster %s says %s of %s (%s)", c.Name, is.State, node.Name, is.Words)
		if len(is.Cut) > 0 {
			made.Opens += "; cut off: " + strings.Join(is.Cut, ", ")
		}
		answer = taskcatalog.ClusterMembership{
			State: string(is.State), Words: is.Words, ID: is.ID, Controller: c.Controller, Node: node.Name, Cut: is.Cut,
		}
	}
	raw, err := json.Marshal(answer)
	made.Secret = string(raw)
	return made, err
}

// notThere refuses a node to join while the cluster has a record of its name that is not down: the
// cluster would confirm the join by the old record. Code: cluster_member_stale.
func notThere(ctx context.Context, a Adapter, c broker.Cluster, node Node) error {
	is, err := a.Membership(ctx, node)
	if err != nil || is.State == Absent || is.State == Down {
		return err
	}
	return broker.Errorf(broker.Refused, "cluster_member_stale",
		"cannot join cluster %s: it says %s of this node's name (%s) before the node has joined, perhaps of an earlier membership "+
			"(run %s.node.leave on the node, or delete that record in the cluster; once the node's own program has ended, the cluster may say so by itself)",
		c.Name, is.State, is.Words, c.Backend)
}

// plan reads the plan of a task from its signed envelope.
func (s *Steps) plan(task broker.Task) (*taskcatalog.OperationPlan, error) {
	signed, err := s.Signed(task.Envelope)
	if err != nil {
		return nil, err
	}
	var plan taskcatalog.OperationPlan
	if signed.TaskID != task.ID || signed.NodeID != task.NodeID || signed.NodeEpoch != task.NodeEpoch || signed.Type != task.Type {
		return nil, broker.Errorf(broker.Forbidden, "credential_refused", "the envelope is of another task")
	}
	return &plan, json.Unmarshal(signed.Params, &plan)
}

// askers are the kinds of steps that ask about their cluster, by what they ask for.
var askers = map[string]string{
	taskcatalog.CredentialClusterMembership: "cluster.verify", taskcatalog.CredentialClusterLeave: "cluster.leave",
}

// asked returns the cluster that a step of a plan is about, and its backend. What is minted to join is
// for the one step cluster.join that takes it.
func asked(plan *taskcatalog.OperationPlan, credentialType, step string) (name, backend string, ok bool) {
	if credentialType == taskcatalog.CredentialClusterJoin {
		name, takers, ok := plan.Credential(step, credentialType)
		if !ok || len(takers) != 1 || takers[0].Kind != "cluster.join" {
			return "", "", false
		}
		backend, ok = takers[0].With["cluster"].Literal.(string)
		return name, backend, ok
	}
	for _, s := range plan.Steps {
		if s.ID == step && s.Kind == askers[credentialType] {
			name, _ = s.With["name"].Literal.(string)
			backend, _ = s.With["cluster"].Literal.(string)
			return name, backend, name != "" && backend != ""
		}
	}
	return "", "", false
}

// memberName is the name of a node in its cluster: the first part of its host name, as the node itself
// would say it.
func memberName(n broker.Node) string {
	name, _, _ := strings.Cut(strings.ToLower(n.Hostname), ".")
	return name
}
