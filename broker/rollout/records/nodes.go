package records

import (
	"cmp"
	"context"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/agentlifecycle"
	agentrecords "github.com/hostler/hostler/broker/agentlifecycle/records"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/presence"
	"github.com/hostler/hostler/broker/rollout"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Nodes is rollout.Nodes over the broker's own parts. It includes the port of package
// agentlifecycle, whose runs do a rollout's work.
type Nodes struct{ *agentrecords.Nodes }

var _ rollout.Nodes = Nodes{}

// Members implements rollout.Nodes.
func (n Nodes) Members(ctx context.Context, rollout string) ([]broker.RolloutMember, error) {
	return n.DB.RolloutMembers(ctx, rollout)
}

// Release implements rollout.Nodes.
func (n Nodes) Release(ctx context.Context, version string, allowRollback bool) (out rollout.Release, err error) {
	r, err := n.Named(ctx, version)
	if err != nil {
		return out, err
	}
	floor, err := n.DB.ReleaseFloor(ctx)
	if err != nil {
		return out, err
	}
	if !allowRollback && floor.Version != "" && release.Compare(version, floor.Version) < 0 {
		return out, broker.Errorf(broker.Refused, string(release.CodeBelowFloor),
			"cannot roll out release %s: the release is below the floor %s (to roll back nevertheless: --allow-rollback with a reason, as platform_admin)", version, floor.Version)
	}
	return rollout.Release{
		Version: r.Version, Digest: r.Digest, Channel: broker.AgentChannel(r.Channel), Commit: r.Commit,
		SHA256: r.SHA256,
	}, nil
}

// Candidates are the nodes that a selector selects, of some sites (nil: all).
func (n Nodes) Candidates(ctx context.Context, s broker.Selector, sites []string) (out []rollout.Candidate, err error) {
	all, _, err := n.DB.ListNodes(ctx, store.NodeFilter{Sites: sites})
	if err != nil {
		return nil, err
	}
	fleet, err := n.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	busy, err := n.Busy(ctx)
	if err != nil {
		return nil, err
	}
	taken, err := n.members(ctx)
	if err != nil {
		return nil, err
	}
	places, err := n.DB.Sites(ctx, sites)
	if err != nil {
		return nil, err
	}
	regions := map[string]string{}
	for _, p := range places {
		regions[p.Name] = p.RegionCode
	}
	for _, node := range all {
		if !s.Matches(node) {
			continue
		}
		a, _ := fleet.Of(node, n.DB)
		out = append(out, rollout.Candidate{Node: node, Agent: a, Region: regions[node.Site], Busy: busy[node.ID], Rollout: taken[node.ID]})
	}
	return out, nil
}

// members maps the unfinished nodes of live rollouts to their rollout.
func (n Nodes) members(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	f := chain.Filter{Kind: rollout.Kind, Statuses: []chain.Status{
		chain.Pending, chain.Running, chain.Compensating, chain.FailedRetryable,
		chain.FailedManual,
	}}
	for {
		page, err := n.DB.Runs(ctx, f)
		if err != nil || len(page) == 0 {
			return out, err
		}
		for _, r := range page {
			s, err := rollout.Load(ctx, n.Members, r)
			if err != nil {
				return out, err
			}
			for _, m := range s.Members {
				if m.Result == rollout.Waiting || m.Result.Moving() {
					out[m.NodeID] = r.ID
				}
			}
		}
		f.After = page[len(page)-1].ID
	}
}

// Busy implements rollout.Nodes.
func (n Nodes) Busy(ctx context.Context) (map[string]bool, error) { return n.DB.NodesInUse(ctx) }

// Candidate implements rollout.Nodes.
func (n Nodes) Candidate(ctx context.Context, nodeID string) (c rollout.Candidate, err error) {
	if c.Node, err = n.DB.Node(ctx, nodeID); err != nil {
		return c, err
	}
	c.Agent, err = n.DB.Agent(ctx, nodeID)
	return c, err
}

// Begin implements rollout.Nodes. A node whose agent cannot update itself is refused: its run would
// wait for a person to install the agent, and a rollout does not wait for persons.
func (n Nodes) Begin(ctx context.Context, o rollout.Order) error {
	if _, err := n.DB.Run(ctx, o.ID); err == nil {
		return nil
	}
	node, err := n.DB.Node(ctx, o.NodeID)
	if err != nil {
		return err
	}
	s, err := n.Start(ctx, node, agentrecords.Order{
		Request: agentlifecycle.Request{
			Mode: broker.ByRebootstrap, Scenario: broker.InPlaceUpgrade, Safety: o.Safety, AllowRollback: o.AllowRollback, Force: o.Force,
			Reason: o.Reason, RequestedBy: o.RequestedBy,
		},
		Target: o.Version, CorrelationID: o.Rollout,
	})
	if err != nil {
		return err
	}
	state := s.State.(agentlifecycle.Work)
	if state.List != agentlifecycle.Update {
		return broker.Errorf(broker.Refused, "agent_unreachable", "cannot deliver a release to node %s: %s", node.ID, state.Because)
	}
	s.ID = o.ID
	_, err = n.Starts.Runs.Start(ctx, s)
	if l, locked := errors.AsType[*chain.Locked](err); locked {
		return n.inRun(ctx, node.ID, l.Taken[0].Run)
	}
	if no, refused := errors.AsType[*chain.Refused](err); refused && no.Code != "run_exists" {
		return broker.Errorf(broker.Refused, no.Code, "%s", no.Message)
	} else if refused {
		return nil
	}
	return err
}

// inRun names the run that has a node, with the rollout of that run.
func (n Nodes) inRun(ctx context.Context, nodeID, run string) error {
	of := ""
	if r, err := n.DB.Run(ctx, run); err == nil && broker.RunKindOf(r.Kind).Name == broker.AgentKinds && r.CorrelationID != "" {
		if by, err := n.DB.Run(ctx, r.CorrelationID); err == nil && by.Kind == rollout.Kind {
			of = " of rollout " + by.ID
		}
	}
	return broker.Errorf(broker.Refused, "node_in_run", "run %s%s holds node %s", run, of, nodeID)
}

// Run implements rollout.Nodes.
func (n Nodes) Run(ctx context.Context, id string) (chain.Record, error) {
	r, err := n.DB.Run(ctx, id)
	if no, refused := errors.AsType[*chain.Refused](err); refused {
		err = broker.Errorf(broker.NotFound, no.Code, "%s", no.Message)
	}
	return r, err
}

// Cancel implements rollout.Nodes.
func (n Nodes) Cancel(ctx context.Context, id, reason string) error {
	_, err := n.Starts.Runs.Act(ctx, chain.Order{
		ID: id, Actor: rollout.Actor, Action: chain.Cancel,
		Reason: taskcatalog.Clean(reason, 500),
	})
	if no, refused := errors.AsType[*chain.Refused](err); refused && (no.Code == "run_ended" || no.Code == "run_compensating") {
		return nil
	}
	return err
}

// Heard implements rollout.Nodes.
func (n Nodes) Heard(ctx context.Context, nodeIDs []string) (map[string]rollout.Heard, error) {
	all, err := n.DB.Heard(ctx, nodeIDs)
	out := make(map[string]rollout.Heard, len(all))
	for id, h := range all {
		out[id] = rollout.Heard{Version: taskcatalog.Clean(h.Version, 64), At: h.At}
	}
	return out, err
}

// PollsStopped implements rollout.Nodes.
func (n Nodes) PollsStopped(ctx context.Context) (bool, error) {
	now := n.DB.Now()
	fleet, err := presence.ReadFleet(ctx, n.DB, now)
	_, stopped := presence.Stopped(now, fleet, presence.DefaultPolicy)
	return stopped, err
}

// Look implements rollout.Nodes.
func (n Nodes) Look(ctx context.Context, nodeIDs []string) (map[string]rollout.NodeState, error) {
	out := make(map[string]rollout.NodeState, len(nodeIDs))
	for _, id := range nodeIDs {
		seen, err := n.look(ctx, id)
		switch {
		case err == nil && seen != nil:
			out[id] = *seen
		case err != nil && broker.AsError(err).Kind != broker.NotFound:
			return nil, err
		}
	}
	return out, nil
}

// look is the present state of a node; nil: the node is deleted.
func (n Nodes) look(ctx context.Context, nodeID string) (*rollout.NodeState, error) {
	node, err := n.DB.Node(ctx, nodeID)
	if err != nil || node.Status == broker.Deleted {
		return nil, err
	}
	seen := &rollout.NodeState{
		Heard:    rollout.Heard{Version: taskcatalog.Clean(node.AgentVersion, 64), At: node.LastAgentContactAt},
		OutOfUse: node.TurnoverOwed || node.Status != broker.Active && node.Status != broker.Offline,
	}
	a, err := n.DB.Agent(ctx, nodeID)
	if err != nil {
		return nil, err
	}
	seen.Delivered = a.CorrelationID
	if a.Result == string(taskcatalog.UpdateRolledBack) {
		seen.PutBack = taskcatalog.Clean(cmp.Or(a.Reason, a.Result), 64)
	}
	h, err := n.DB.Handout(ctx, node)
	if err != nil {
		return nil, err
	}
	seen.InRun = h.RunID
	for _, live := range h.Occupants {
		seen.Busy = seen.Busy || live.Live()
	}
	for _, u := range agentrecords.Unfit(h) {
		seen.Unfit = append(seen.Unfit, u.Code)
	}
	return seen, nil
}

// HasOpenTask implements rollout.Nodes.
func (n Nodes) HasOpenTask(ctx context.Context, nodeID, runID string) (bool, error) {
	all, _, err := n.DB.ListTasks(ctx, store.TaskFilter{NodeID: nodeID, CorrelationID: runID, Limit: taskqueue.MaxTasksOfRun})
	for _, k := range all {
		if !k.Status.Ended() {
			return true, err
		}
	}
	return false, err
}
