package turnover

import (
	"context"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// drainLimit is how long the run waits for an agent before the agent counts as silent.
func drainLimit(s Turnover) chain.Limit {
	return chain.Limit{
		After: time.Duration(s.Policy.DrainTimeoutSeconds) * time.Second, Class: silent, Code: "agent_silent",
		Next: "start the agent again, then retry; or cancel and " + strings.ReplaceAll(reimage, "NODE", s.NodeID) +
			", which does not need its agent",
	}
}

// drain ends the users of the node and their processes, and then has the node itself confirm that
// nobody is on it.
func (c *Chains) drain(ctx context.Context, r *run) error {
	s := &r.State
	live, err := c.live(ctx, r)
	if err != nil {
		return err
	}
	if err := c.endUsersOf(ctx, r, live); err != nil {
		return err
	}
	k, err := c.request(ctx, r, residue, taskstage.Task{
		Type:   "node.drain",
		Params: taskcatalog.DrainParams{GraceSeconds: s.Policy.DrainGraceSeconds},
	}, "")
	if err != nil {
		return err
	}
	var result taskcatalog.DrainResult
	if err := unmarshal(k, &result); err != nil {
		return err
	}
	if !result.Drained {
		return chain.Fail(residue, "node %s is not drained: %d processes did not end (hostler task show %s)", s.NodeID,
			len(result.ProcessesLeft), k.ID).With("processes_left", taskstage.Details(k))
	}
	n, err := c.Nodes.Node(ctx, s.NodeID)
	if err != nil {
		return taskstage.Records(err)
	}
	if n.Status == broker.Draining {
		return chain.Again(soon, "the node is drained, and still %s", n.Status) // the effect has its own transaction
	}
	r.Note(map[string]any{"task_id": k.ID, "users": len(live), "sessions": result.SessionsEnded, "processes": result.ProcessesStopped},
		"no tenant is on the node")
	return nil
}
