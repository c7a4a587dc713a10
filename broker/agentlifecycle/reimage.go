package agentlifecycle

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
)

// Turnovers are the turnovers of reimages.
type Turnovers interface {
	// Reimage begins the turnover of a run, under an id derived from the run's id, and Turnover
	// reads that turnover. Codes: as for a turnover that an operator starts.
	Reimage(ctx context.Context, runID string, s Work) (turnover string, err error)
	Turnover(ctx context.Context, id string) (chain.Record, error)
}

// startReimage begins the turnover that gives the node a fresh system. The turnover checks for
// live allocations in the transaction that takes the node. This run must not hold the node's lock
// meanwhile.
func (c *Chains) startReimage(ctx context.Context, r *run) error {
	s := &r.State
	if s.Turnover == "" {
		n, err := c.Nodes.Node(ctx, s.NodeID)
		if err != nil {
			return taskstage.Records(err)
		}
		if err := c.begin(ctx, r, n); err != nil {
			return err
		}
	}
	live, err := c.Nodes.Live(ctx, s.NodeID)
	switch {
	case err != nil:
		return taskstage.Records(err)
	case s.Safety == broker.AfterDrain && len(live) > 0:
		return chain.Again(30*time.Second, "waiting for the end of allocation %s on node %s", named(live), s.NodeID)
	}
	id, err := c.Nodes.Reimage(ctx, r.ID, *s)
	if err != nil {
		return taskstage.Records(err)
	}
	s.Turnover = id
	r.Note(map[string]any{"turnover": id}, "turnover %s reimages node %s", id, s.NodeID)
	return nil
}

// waitForReimage follows the turnover. A stopped turnover is repaired there; a cancelled turnover
// ends this run as well.
func (c *Chains) waitForReimage(ctx context.Context, r *run) error {
	s := &r.State
	t, err := c.Nodes.Turnover(ctx, s.Turnover)
	switch {
	case err != nil:
		return taskstage.Records(err)
	case t.Status == chain.Cancelled:
		return chain.Fail(updateFailed, "turnover %s was cancelled", s.Turnover).With("reimage_cancelled",
			nil).Next("cancel this run too, and start another run")
	case !t.Status.Ended():
		return chain.Again(10*time.Second, "turnover %s is %s at %s", s.Turnover, t.Status, t.Stage)
	}
	s.DeliveredAt = t.CompletedAt
	s.Unfit = nil // a fresh system must be fully fit, whatever the node was before
	return nil
}
