package agentlifecycle

import (
	"context"
	"encoding/json"
	"math"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// Wanted is what the agents of nodes shall have.
type Wanted interface {
	// ProfilesVersion names the set of resolver profiles with a digest.
	ProfilesVersion(ctx context.Context, digest string) (string, error)
	// TrustVersion is the version of the trust bundle in force.
	TrustVersion() int64
}

// request has the node do a task for a stage, once an attempt, and waits for its end, whatever the
// outcome.
func (c *Chains) request(ctx context.Context, r *run, typ string, params any) (broker.Task, error) {
	k, err := taskstage.Await(ctx, c.Nodes, taskstage.Task{Key: r.Key(), NodeID: r.State.NodeID, Type: typ, Params: params, RunID: r.ID})
	if err == nil && !slices.Contains(r.State.Tasks, k.ID) {
		r.State.Tasks = append(r.State.Tasks, k.ID)
	}
	return k, err
}

// succeed is ask for a task whose failure fails the stage.
func (c *Chains) succeed(ctx context.Context, r *run, typ string, params any) (broker.Task, error) {
	k, err := c.request(ctx, r, typ, params)
	if err != nil {
		return k, err
	}
	return k, taskstage.Judge(k, updateFailed)
}

// update has the agent install the release beside itself and switch to it. The node reports the
// outcome; a program that was rolled back is announced as such.
func (c *Chains) update(ctx context.Context, r *run) error {
	s := &r.State
	k, err := c.request(ctx, r, "node.self_update", taskcatalog.SelfUpdateParams{
		Phase: taskcatalog.PhaseUpdate, Version: s.Target.Version, AllowRollback: s.AllowRollback, Force: s.Force,
		Reason: taskcatalog.Clean(s.Reason, 300),
	})
	if err != nil {
		return err
	}
	told, known, err := c.recordDelivery(ctx, r, k)
	switch {
	case err != nil:
		return err
	case !known && k.Status != broker.TaskSucceeded:
		return taskstage.Judge(k, updateFailed)
	case !known:
		return chain.Fail(updateFailed, "the result of task %s cannot be read", k.ID).With("bad_result", nil)
	}
	switch told["outcome"] {
	case taskcatalog.UpdateConfirmed:
		s.DeliveredAt = r.Now
		r.Note(told, "node %s runs %s, %.0f seconds after the task began", s.NodeID, s.Target.Version, told["seconds"])
		return nil
	case taskcatalog.UpdateRolledBack:
		return chain.Fail(updateFailed, "node %s rolled back to %s, because %s was not kept: %s (hostler task show %s)", s.NodeID,
			told["from"], s.Target.Version, told["reason"], k.ID).With("rolled_back", told)
	}
	return chain.Fail(updateFailed, "node %s did not install %s: %s: %s (hostler task show %s)", s.NodeID, s.Target.Version, told["reason"],
		taskcatalog.Clean(k.Message, 300), k.ID).With("update_"+string(taskcatalog.UpdateRefused), told)
}

// recordDelivery records the outcome of an update on a node. known is false for a task without a
// readable result.
func (c *Chains) recordDelivery(ctx context.Context, r *run, k broker.Task) (told map[string]any, known bool, err error) {
	s := &r.State
	var result taskcatalog.SelfUpdateResult
	if len(k.Result) == 0 || json.Unmarshal(k.Result, &result) != nil {
		return nil, false, nil
	}
	reason, took := taskcatalog.Clean(string(result.Reason), 64), int64(math.Ceil(max(result.Seconds, 0)))
	if reason == "" && k.Status != broker.TaskSucceeded {
		reason = string(k.Code)
	}
	result.Outcome = taskcatalog.UpdateOutcome(taskcatalog.Clean(string(result.Outcome), 32))
	if err := c.Nodes.RecordDelivery(ctx, s.delivery(r.ID, string(result.Outcome), reason, took)); err != nil {
		return nil, false, taskstage.Records(err)
	}
	told = map[string]any{
		"run_id": r.ID, "node_id": s.NodeID, "task_id": k.ID, "from": taskcatalog.Clean(result.FromVersion, 64),
		"to": taskcatalog.Clean(result.ToVersion, 64), "outcome": result.Outcome,
		"reason": reason, "seconds": result.Seconds, "switch_seconds": result.SwitchSeconds,
	}
	if result.Outcome == taskcatalog.UpdateRolledBack {
		r.Publish(chain.Message{Type: broker.AgentRolledBackEvent, Subject: "node/" + s.NodeID, Data: told})
	}
	return told, true, nil
}

// rotate gives the node a new key and certificate.
func (c *Chains) rotate(ctx context.Context, r *run) error {
	_, err := c.succeed(ctx, r, "node.rotate_identity", struct{}{})
	if err == nil {
		r.State.DeliveredAt = r.Now
	}
	return err
}

// trustConfirmed reports that the node has confirmed the trust bundle in force.
func (c *Chains) trustConfirmed(ctx context.Context, r *run) (bool, error) {
	n, err := c.Nodes.Node(ctx, r.State.NodeID)
	return err == nil && n.TrustVersion >= c.Nodes.TrustVersion(), taskstage.Records(err)
}

func (c *Chains) updateTrust(ctx context.Context, r *run) error {
	_, err := c.succeed(ctx, r, "node.trust_update", struct{}{})
	return err
}

// profilesConfirmed reports that the node has its assigned resolver profiles.
func (c *Chains) profilesConfirmed(ctx context.Context, r *run) (bool, error) {
	n, err := c.Nodes.Node(ctx, r.State.NodeID)
	if err == nil {
		r.State.DeliveredAt = r.Now
	}
	return err == nil && (n.ResolverWanted == "" || n.ResolverWanted == n.ResolverDigest), taskstage.Records(err)
}

func (c *Chains) pushProfiles(ctx context.Context, r *run) error {
	n, err := c.Nodes.Node(ctx, r.State.NodeID)
	if err != nil {
		return taskstage.Records(err)
	}
	version, err := c.Nodes.ProfilesVersion(ctx, n.ResolverWanted)
	if err != nil {
		return taskstage.Records(err)
	}
	_, err = c.succeed(ctx, r, "node.resolver_config", taskcatalog.ResolverConfigParams{Version: version})
	return err
}
