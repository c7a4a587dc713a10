package turnover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// Service takes nodes out of service and lets them in again.
type Service interface {
	// Disable takes a node out of service and owes it a turnover, if no allocation but the ones
	// in ends is live. forced are the node's allocations from ends, announced as
	// allocation.force_released. A node in another status than from is refused; empty: any.
	// Codes: allocation_live, node_moved, transition_refused.
	Disable(ctx context.Context, nodeID, runID, reason string, from broker.NodeStatus, ends []string) (forced []broker.Occupant,
		err error)
	// Quarantine keeps a node from use, states the reason, and owes a turnover. A node that is
	// being removed stays unchanged.
	Quarantine(ctx context.Context, nodeID, reason string) error
	// Enable lets the node in by a run's certificate that meets the policy, past the obstacles in
	// lifts. Codes: certificate_missing, certificate_falls_short, certificate_stale,
	// kept_out_by_conflict, kept_out_by_person.
	Enable(ctx context.Context, nodeID, runID, certificateID string, lifts Lifts) error
}

// Lifts are obstacles to use that a person has accepted.
type Lifts struct {
	Person    bool      // a person has quarantined the node meanwhile
	Conflicts time.Time // conflicts of identity up to this time
}

// disable takes the node out of service and owes it a turnover. A run that begins again after a
// stop during a removal takes the removal back first; parts already removed stay removed.
func (c *Chains) disable(ctx context.Context, r *run) error {
	s := &r.State
	n, err := c.Nodes.Node(ctx, s.NodeID)
	if err != nil {
		return taskstage.Records(err)
	}
	switch {
	case s.Was != "" && n.Status == broker.Deleted:
		r.AlreadyDone(nil, "node %s is deleted already", s.NodeID)
		return nil
	case s.Was != "" && n.Status == broker.Removing:
		if _, err := c.Nodes.Withdraw(ctx, s.NodeID, r.ID, "run "+r.ID+" starts over"); err != nil {
			return taskstage.Records(err)
		}
		if err := c.keepIdentity(ctx, r); err != nil {
			return err
		}
	}
	from := s.From
	if s.Was != "" {
		from = "" // the run has the node, and a stage may have moved it since
	}
	forced, err := c.Nodes.Disable(ctx, s.NodeID, r.ID, s.Reason, from, s.Ends)
	if err != nil {
		return taskstage.Records(err)
	}
	if s.Was == "" {
		s.Was, s.TakenAt = n.Status, r.Now
	}
	for _, a := range forced {
		s.warn("allocation %s was ended by force", a.Describe())
	}
	r.Note(map[string]any{"was": s.Was, "forced": len(forced)}, "node %s takes no new tenant", s.NodeID)
	return nil
}

// keepFromUse is the only undo: the tenant's state is gone, or may be. A node that the run never
// took, because a tenant is on it, stays unchanged.
func (c *Chains) keepFromUse(ctx context.Context, r *run) error {
	if r.State.Was == "" {
		n, err := c.Nodes.Node(ctx, r.State.NodeID)
		if err != nil {
			return taskstage.Records(err)
		}
		if !n.TurnoverOwed { // otherwise the node was taken, and the save was lost
			r.Note(nil, "node %s was never taken out of service, and stays %s", n.ID, n.Status)
			return nil
		}
	}
	if _, err := c.Nodes.Withdraw(ctx, r.State.NodeID, r.ID, CancelledReason(r.ID)); err != nil {
		return taskstage.Records(err)
	}
	return taskstage.Records(c.Nodes.Quarantine(ctx, r.State.NodeID, CancelledReason(r.ID)))
}

// quarantineUninspected is keepFromUse for a node that was in service all the time: the node is
// quarantined if any work was begun, because no inspection has followed.
func (c *Chains) quarantineUninspected(ctx context.Context, r *run) error {
	asked, err := c.Nodes.Withdraw(ctx, r.State.NodeID, r.ID, CancelledReason(r.ID))
	switch {
	case err != nil:
		return taskstage.Records(err)
	case len(asked) == 0:
		r.Note(nil, "no work began on node %s, which stays unchanged", r.State.NodeID)
		return nil
	}
	return taskstage.Records(c.Nodes.Quarantine(ctx, r.State.NodeID, CancelledReason(r.ID)))
}

// quarantineOnFailure quarantines a node in service if the work on it fails for good, or misses its
// limit: work was begun, and no inspection has followed. Open tasks of the run are withdrawn.
func (c *Chains) quarantineOnFailure(do func(context.Context, *run) error, taskType string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		err := do(ctx, r)
		if err == nil {
			return nil
		}
		waited, unknown := r.Since(ctx, r.EnteredAt)
		if unknown != nil {
			return unknown
		}
		f, failed := errors.AsType[*chain.Failure](err)
		switch late := waited >= taskLimit(taskType)(r.State).After; {
		case !late && (!failed || retryable(r, f)):
			return err
		case !failed:
			f = chain.Fail(silent, "not within %v: %w", waited, err).With("agent_silent", nil)
		}
		switch asked, err := c.Nodes.Withdraw(ctx, r.State.NodeID, r.ID, f.Message); {
		case err != nil:
			return taskstage.Records(err)
		case len(asked) == 0:
			return f // nothing was begun, and the node stays unchanged
		}
		if err := c.Nodes.Quarantine(ctx, r.State.NodeID, f.Message); err != nil {
			return taskstage.Records(err)
		}
		return f
	}
}

// retryable reports whether a failed stage is retried automatically.
func retryable(r *run, f *chain.Failure) bool {
	again := slices.ContainsFunc(broker.FailureHandlings,
		func(h broker.FailureHandling) bool { return chain.Class(h.Class) == f.Class && h.Retry })
	return again && r.Spent+1 < retries(r.Stage)(r.State).Attempts
}

// keptWithin is the limit of a stage under quarantineOnFailure, with time left to quarantine the
// node.
func keptWithin(taskType string) func(Turnover) chain.Limit {
	return func(s Turnover) chain.Limit {
		l := taskLimit(taskType)(s)
		l.After += records
		return l
	}
}

// enable hands the node out again: first by its agent, which refuses users while it has the drain
// mark, and then by the broker, which requires this run's certificate.
func (c *Chains) enable(ctx context.Context, r *run) error {
	s := &r.State
	if _, err := c.request(ctx, r, transient, taskstage.Task{Type: "node.drain", Params: taskcatalog.DrainParams{Resume: true}},
		""); err != nil {
		return err
	}
	lifts := Lifts{Person: r.Accepts("kept_out_by_person"), Conflicts: s.ConflictTaken}
	if err := c.Nodes.Enable(ctx, s.NodeID, r.ID, s.Issued, lifts); err != nil {
		return taskstage.Records(err)
	}
	r.Note(map[string]string{"certificate_id": s.Issued}, "node %s is active", s.NodeID)
	return nil
}

// warn adds a line to the run's record, once.
func (s *Turnover) warn(format string, args ...any) {
	const most = 50
	if text := taskcatalog.Clean(fmt.Sprintf(format, args...), 300); !slices.Contains(s.Warnings, text) && len(s.Warnings) < most {
		s.Warnings = append(s.Warnings, text)
	}
}
