package upgrade

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

// safe judges the run's safety policy, now that nobody else is let in, and notes what
// the node was before anything is done to it.
func (c *Chains) safe(ctx context.Context, r *run) error {
	s := &r.State
	n, err := c.Nodes.Node(ctx, s.NodeID)
	if err != nil {
		return ours(err)
	}
	live, err := c.Nodes.Live(ctx, s.NodeID)
	if err != nil {
		return ours(err)
	}
	switch {
	case len(live) == 0 || s.Safety == broker.Forced:
	case s.Safety == broker.AfterDrain:
		return chain.Again(30*time.Second, "allocation %s is on node %s, and is waited for", named(live), n.ID)
	default:
		return ours(busy(n, live))
	}
	if err := c.begin(ctx, r, n); err != nil {
		return err
	}
	r.Note(map[string]any{"safety_policy": s.Safety, "allocations": len(live), "was": s.Was}, "node %s may be worked on: %s", n.ID, wordsOf(s.Safety, live))
	return nil
}

func wordsOf(p broker.SafetyPolicy, live []broker.Allocation) string {
	if len(live) == 0 {
		return "nobody is on it"
	}
	return "by " + string(p) + ", with allocation " + named(live) + " on it"
}

// begin notes what the node was, and that a delivery is under way.
func (c *Chains) begin(ctx context.Context, r *run, n broker.Node) error {
	s := &r.State
	if s.BegunAt.IsZero() {
		unfit, err := c.Nodes.Unfit(ctx, s.NodeID)
		if err != nil {
			return ours(err)
		}
		for _, u := range unfit {
			s.Unfit = append(s.Unfit, u.Code)
		}
		s.Was, s.From, s.Epoch, s.BegunAt = n.Status, n.AgentVersion, n.Epoch, r.Now
	}
	return ours(c.Nodes.Tell(ctx, s.delivery(r.ID, Running, "", 0)))
}

func (s *Upgrade) delivery(runID, result, reason string, seconds int64) Delivery {
	return Delivery{NodeID: s.NodeID, RunID: runID, Mode: s.Mode, At: s.BegunAt, Result: result, Reason: reason, Seconds: seconds}
}

// withdraw takes back what no agent has taken yet. What one has, it ends itself.
func (c *Chains) withdraw(ctx context.Context, r *run) error {
	return ours(c.Nodes.Withdraw(ctx, r.State.NodeID, r.ID, "run "+r.ID+" was cancelled"))
}
