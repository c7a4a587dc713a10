package turnover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/asking"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/taskcatalog"
)

// disable takes the node out of service and owes it a turnover. A run that begins anew
// after it was stopped in the middle of a removal takes that back first; what is removed
// by then stays so.
func (c *Chains) disable(ctx context.Context, r *run) error {
	s := &r.State
	n, err := c.Nodes.Node(ctx, s.NodeID)
	if err != nil {
		return asking.Records(err)
	}
	switch {
	case s.Was != "" && n.Status == broker.Deleted:
		r.AlreadySo(nil, "node %s is deleted already", s.NodeID)
		return nil
	case s.Was != "" && n.Status == broker.Removing:
		if _, err := c.Nodes.Withdraw(ctx, s.NodeID, r.ID, "run "+r.ID+" begins anew"); err != nil {
			return asking.Records(err)
		}
		if err := c.staysRetired(ctx, r); err != nil {
			return err
		}
	}
	from := s.From
	if s.Was != "" {
		from = "" // the run has it, and a stage may have moved it since
	}
	forced, err := c.Nodes.Disable(ctx, s.NodeID, r.ID, s.Reason, from, s.Ends)
	if err != nil {
		return asking.Records(err)
	}
	if s.Was == "" {
		s.Was, s.TakenAt = n.Status, r.Now
	}
	for _, a := range forced {
		s.warn("allocation %s was ended by force", a.Named())
	}
	r.Note(map[string]any{"was": s.Was, "forced": len(forced)}, "node %s takes no tenant", s.NodeID)
	return nil
}

// keepFromUse is all that is taken back: what a tenant had is gone, or may be. A node
// that the run never had, because a tenant is on it, stays as it is.
func (c *Chains) keepFromUse(ctx context.Context, r *run) error {
	if r.State.Was == "" {
		n, err := c.Nodes.Node(ctx, r.State.NodeID)
		if err != nil {
			return asking.Records(err)
		}
		if !n.TurnoverOwed { // else it was taken, and the save was lost
			r.Note(nil, "node %s was never taken out of service, and stays %s", n.ID, n.Status)
			return nil
		}
	}
	if _, err := c.Nodes.Withdraw(ctx, r.State.NodeID, r.ID, CancelledReason(r.ID)); err != nil {
		return asking.Records(err)
	}
	return asking.Records(c.Nodes.Quarantine(ctx, r.State.NodeID, CancelledReason(r.ID)))
}

// keepUnlooked is keepFromUse of a node that was in service all the time: it goes where
// nobody gets it if anything was begun on it, because nobody has looked since.
func (c *Chains) keepUnlooked(ctx context.Context, r *run) error {
	asked, err := c.Nodes.Withdraw(ctx, r.State.NodeID, r.ID, CancelledReason(r.ID))
	switch {
	case err != nil:
		return asking.Records(err)
	case len(asked) == 0:
		r.Note(nil, "nothing was begun on node %s, which stays as it is", r.State.NodeID)
		return nil
	}
	return asking.Records(c.Nodes.Quarantine(ctx, r.State.NodeID, CancelledReason(r.ID)))
}

// orQuarantined has work on a node that is in service keep it from use where that fails
// for good, or does not end in its time: something was begun on it, and nobody has looked
// since. What is still to be done of it is not done any more.
func (c *Chains) orQuarantined(do func(context.Context, *run) error, taskType string) func(context.Context, *run) error {
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
		case !late && (!failed || triedAgain(r, f)):
			return err
		case !failed:
			f = chain.Fail(silent, "not within %v: %w", waited, err).With("agent_silent", nil)
		}
		switch asked, err := c.Nodes.Withdraw(ctx, r.State.NodeID, r.ID, f.Message); {
		case err != nil:
			return asking.Records(err)
		case len(asked) == 0:
			return f // nothing was begun, and the node stays as it is
		}
		if err := c.Nodes.Quarantine(ctx, r.State.NodeID, f.Message); err != nil {
			return asking.Records(err)
		}
		return f
	}
}

// triedAgain reports whether a stage that has failed is tried again by itself.
func triedAgain(r *run, f *chain.Failure) bool {
	again := slices.ContainsFunc(broker.FailureHandlings, func(h broker.FailureHandling) bool { return chain.Class(h.Class) == f.Class && h.Retry })
	return again && r.Spent+1 < retries(r.Stage)(r.State).Attempts
}

// keptWithin is the limit of such work: it leaves time to keep the node from use.
func keptWithin(taskType string) func(Turnover) chain.Limit {
	return func(s Turnover) chain.Limit {
		l := taskLimit(taskType)(s)
		l.After += records
		return l
	}
}

// drainLimit is how long an agent is waited for before it counts as silent.
func drainLimit(s Turnover) chain.Limit {
	return chain.Limit{
		After: time.Duration(s.Policy.DrainTimeoutSeconds) * time.Second, Class: silent, Code: "agent_silent",
		Next: "bring the agent back, then retry; or cancel and " + strings.ReplaceAll(reimage, "NODE", s.NodeID) + ", which does not need its agent",
	}
}

// drain ends the users of the node and what they run, and then has the node itself
// say that nobody is on it.
func (c *Chains) drain(ctx context.Context, r *run) error {
	s := &r.State
	live, err := c.live(ctx, r)
	if err != nil {
		return err
	}
	if err := c.endUsersOf(ctx, r, live); err != nil {
		return err
	}
	k, err := c.ask(ctx, r, residue, asking.Task{Type: "node.drain", Params: taskcatalog.DrainParams{GraceSeconds: s.Policy.DrainGraceSeconds}}, "")
	if err != nil {
		return err
	}
	var result taskcatalog.DrainResult
	if err := unmarshal(k, &result); err != nil {
		return err
	}
	if !result.Drained {
		return chain.Fail(residue, "node %s is not drained: %d processes would not end (hostler task show %s)", s.NodeID, len(result.ProcessesLeft), k.ID).With("processes_left", asking.Details(k))
	}
	n, err := c.Nodes.Node(ctx, s.NodeID)
	if err != nil {
		return asking.Records(err)
	}
	if n.Status == broker.Draining {
		return chain.Again(soon, "the node is drained, and still %s", n.Status) // the result's effect is its own transaction's
	}
	r.Note(map[string]any{"task_id": k.ID, "users": len(live), "sessions": result.SessionsEnded, "processes": result.ProcessesStopped}, "nobody is on the node")
	return nil
}

// enable hands the node out again: by its agent first, which refuses users while it
// holds the mark of the drain, and then by the broker, which asks for this run's
// certificate.
func (c *Chains) enable(ctx context.Context, r *run) error {
	s := &r.State
	if _, err := c.ask(ctx, r, transient, asking.Task{Type: "node.drain", Params: taskcatalog.DrainParams{Resume: true}}, ""); err != nil {
		return err
	}
	lifts := Lifts{Person: r.Accepts("kept_out_by_person"), Conflicts: s.ConflictTaken}
	if err := c.Nodes.Enable(ctx, s.NodeID, r.ID, s.Issued, lifts); err != nil {
		return asking.Records(err)
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
