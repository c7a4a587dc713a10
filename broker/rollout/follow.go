package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/agentlifecycle"
	"github.com/hostler/hostler/broker/chain"
)

// Runs are the runs of a rollout, and what became of their nodes.
type Runs interface {
	// Run is a begun run. Code: run_not_found.
	Run(ctx context.Context, id string) (chain.Record, error)
	// Cancel requests the end of a run; an ended run, or a run in undo, stays unchanged.
	Cancel(ctx context.Context, id, reason string) error
	// Look is the full present state of nodes, with a query for each; a deleted node is missing.
	Look(ctx context.Context, nodeIDs []string) (map[string]NodeState, error)
	// HasOpenTask reports whether a run has an open task on the node.
	HasOpenTask(ctx context.Context, nodeID, runID string) (bool, error)
}

// follow updates a member from its run. begun is false if the rollout had decided on the run, but
// the run was never started.
func (c *Chains) follow(ctx context.Context, r *run, m *Member) (begun bool, err error) {
	rec, u, err := c.runOf(ctx, m.Current(r.ID))
	switch none := err != nil && broker.AsError(err).Code == "run_not_found"; {
	case none && m.Result == Running:
		return false, nil
	case none && m.Result == TakingBack:
		return true, c.beginRollback(ctx, r, m)
	case err != nil:
		return true, storeFault(err)
	}
	m.Parked = parked(rec, u)
	switch m.Result {
	case Running:
		err = c.followUpdate(ctx, r, m, rec, u)
	case Failing:
		err = c.followFailing(ctx, r, m, rec, u)
	default:
		err = c.followRollback(ctx, r, m, rec, u)
	}
	return true, err
}

// runOf is a run on a node, with its state.
func (c *Chains) runOf(ctx context.Context, id string) (rec chain.Record, u agentlifecycle.Work, err error) {
	if rec, err = c.Nodes.Run(ctx, id); err != nil {
		return rec, u, err
	}
	if err := json.Unmarshal(rec.State, &u); err != nil {
		return rec, u, chain.Fail(chain.StateAmbiguity, "the state of run %s cannot be read: %v", rec.ID, err).With("state_unreadable", nil)
	}
	return rec, u, nil
}

// parked reports whether a run waits for a tenant of its node. A run held by a freeze, or not yet
// looked at, is not parked: it would continue together with all others.
func parked(rec chain.Record, u agentlifecycle.Work) bool {
	return notStarted(rec, u) && u.Safety == broker.AfterDrain && rec.Waiting != "" && rec.HeldSince.IsZero()
}

// notStarted reports whether a run has done nothing to its node yet.
func notStarted(rec chain.Record, u agentlifecycle.Work) bool {
	return rec.Status.Moving() && rec.Direction == chain.Forward && u.BegunAt.IsZero()
}

// withdrawn reports whether a run was cancelled by a rollout.
func withdrawn(rec chain.Record) bool {
	return rec.Status == chain.Cancelled && rec.AskedBy == Actor.Name
}

func (c *Chains) followUpdate(ctx context.Context, r *run, m *Member, rec chain.Record, u agentlifecycle.Work) error {
	if u.From != "" {
		m.From = u.From
	}
	if !rec.Status.Moving() {
		m.Seconds = seconds(rec)
	}
	switch {
	case rec.Status == chain.Completed || rec.Status == chain.Reconciled:
		m.Result, m.Unfit, r.State.Unsoaked = Done, u.Unfit, true
		return nil
	case restored(rec):
		m.Result = Failing // not a failure of the node
		m.noteReason(reasonOf(rec))
	case withdrawn(rec):
		m.Result = Failing // until it is known whether the node had taken a task
	case rec.Status == chain.Cancelled:
		m.fails("run_cancelled", "run "+rec.ID+" was cancelled by "+rec.AskedBy)
	case rec.Status.Stopped():
		code, why := reasonOf(rec)
		m.fails(code, why)
	default:
		return nil
	}
	if u.BegunAt.IsZero() {
		m.Counts = NoFailure // nothing was done to the node
	}
	if rec.Status.Stopped() {
		return nil // cancelled after the reason is saved: then it is treated as withdrawn
	}
	return c.followFailing(ctx, r, m, rec, u)
}

// restored reports whether a run was stopped because the database was restored: its further
// course is unknown. The answer stays true after a cancel.
func restored(rec chain.Record) bool {
	return (rec.Status.Stopped() || rec.Status == chain.Cancelled) && rec.Failure != nil && rec.Failure.Code == chain.CodeRestored
}

func (m *Member) fails(code, why string) {
	m.Result, m.Counts = Failing, Counted
	m.noteReason(code, why)
}

// reasonOf is why a run stopped: for an update, the node's own reason if there is one.
func reasonOf(rec chain.Record) (code, why string) {
	f := rec.Failure
	if f == nil {
		return string(rec.Status), rec.Stage
	}
	return f.Code, rec.Stage + ": " + f.Message
}

func seconds(rec chain.Record) int64 {
	if rec.StartedAt.IsZero() {
		return 0
	}
	return int64(cmp.Or(rec.CompletedAt, rec.UpdatedAt).Sub(rec.StartedAt).Seconds() + 0.5)
}

// followFailing puts a failed run away, and then settles the state of its node.
func (c *Chains) followFailing(ctx context.Context, r *run, m *Member, rec chain.Record, u agentlifecycle.Work) error {
	switch {
	case rec.Status.Stopped() && rec.Direction == chain.Undo:
		m.settle(Failed, "cancel_failed")
		return nil
	case rec.Status.Stopped():
		return storeFault(c.Nodes.Cancel(ctx, rec.ID, r.State.reason(r.ID)+": it stopped at "+rec.Stage))
	case !rec.Status.Ended():
		return nil
	}
	if restored(rec) {
		m.waits() // the running version decides the next step, and nothing is taken back
		return nil
	}
	if u.BegunAt.IsZero() {
		m.settleUntouched(r.State.Safety, rec)
		return nil
	}
	if m.Code == codeRolledBack { // the node's result; the node's report may lag behind
		m.settle(RolledBack, "")
		return nil
	}
	asked, err := c.Nodes.HasOpenTask(ctx, m.NodeID, rec.ID)
	if err != nil {
		return storeFault(err)
	}
	all, err := c.Nodes.Look(ctx, []string{m.NodeID})
	if err != nil {
		return storeFault(err)
	}
	seen, there := all[m.NodeID]
	if !there {
		m.settle(Failed, "node_gone")
		return nil
	}
	silent, err := c.silent(ctx, r, seen.At)
	switch {
	case err != nil:
		return err
	case asked && !silent:
		return nil // the agent's present task ends first
	case seen.Version != r.State.Release.Version && m.Code != "" && m.noteOwnRollback(r.ID, seen):
		m.settle(RolledBack, "")
	case seen.Version != r.State.Release.Version && m.Code == "":
		m.waits()
	case seen.Version != r.State.Release.Version:
		m.settle(Failed, "")
	case silent:
		m.settle(Failed, "agent_silent")
	default:
		m.settle(TakingBack, "")
	}
	return nil
}

// codeRolledBack is the code of a node that restored its previous version itself, by its run's
// result or by a later report.
const codeRolledBack = "rolled_back"

// noteOwnRollback notes this code for a member that runs another version, if the node itself
// reports that it undid the run's delivery: such a run may have completed before.
func (m *Member) noteOwnRollback(rollout string, seen NodeState) bool {
	if seen.PutBack == "" || seen.Delivered != m.RunID(rollout) {
		return false
	}
	m.noteReason(codeRolledBack, "its own watcher has rolled back to "+seen.Version+": "+seen.PutBack)
	return true
}

// settleUntouched settles a member whose run ended before it did any work.
func (m *Member) settleUntouched(p broker.SafetyPolicy, rec chain.Record) {
	if m.Code == "" && withdrawn(rec) || m.Code == "allocation_live" && p == broker.AfterDrain {
		m.waits()
		return
	}
	m.skip(m.Code, m.Why)
}

// waits makes a member wait for another run.
func (m *Member) waits() {
	m.Result, m.Try, m.Parked, m.Seconds, m.Code, m.Why = Waiting, m.Try+1, false, 0, "", ""
}

func (m *Member) settle(as Result, back string) {
	m.Result, m.Back, m.Parked = as, back, false
}

// beginRollback begins the run that restores a node's previous version, after the decision is
// saved: otherwise a node that has already gone back would look like a node that never took the
// release. The run ends no tenants that the rollout's own policy would not have ended. If another
// run has the node, beginRollback waits, unless that run waits for a person.
func (c *Chains) beginRollback(ctx context.Context, r *run, m *Member) error {
	s := &r.State
	switch {
	case m.From == "" || m.From == s.Release.Version:
		m.settleStuck("no_version_before")
		return nil
	case r.Undoing && m.Code == codeTakenBack:
		m.settleStuck("rollout_aborted")
		return nil
	}
	now, err := c.Nodes.Candidate(ctx, m.NodeID)
	if err == nil && now.Node.AgentVersion != s.Release.Version {
		m.settleStuck("runs_other") // somebody installed another version, which must stay
		return nil
	}
	if err == nil {
		err = c.Nodes.Begin(ctx, Order{
			ID: m.BackID(r.ID), Rollout: r.ID, NodeID: m.NodeID, Version: m.From, Safety: s.safetyBack(), AllowRollback: true, Force: true,
			Reason: s.reason(r.ID) + ": taken back", RequestedBy: s.RequestedBy,
		})
	}
	e := broker.AsError(err)
	switch {
	case err == nil || !refuses(e):
		return storeFault(err)
	case e.Code == "node_in_run":
		if m.Parked, err = c.runMoving(ctx, m.NodeID); err != nil || m.Parked {
			return storeFault(err)
		}
	}
	m.settleStuck(e.Code)
	return nil
}

func (s *Rollout) safetyBack() broker.SafetyPolicy {
	if s.Safety == broker.Forced {
		return broker.Forced
	}
	return broker.AfterDrain
}

// runMoving reports whether the run that has a node continues without a person, or has ended
// meanwhile.
func (c *Chains) runMoving(ctx context.Context, nodeID string) (bool, error) {
	all, err := c.Nodes.Look(ctx, []string{nodeID})
	seen, there := all[nodeID]
	if err != nil || !there || seen.InRun == "" {
		return there, err
	}
	rec, err := c.Nodes.Run(ctx, seen.InRun)
	return !rec.Status.Stopped(), err
}

// settleStuck settles a member that cannot be taken back. why is the code of the obstacle.
func (m *Member) settleStuck(why string) {
	if m.Code == codeTakenBack {
		m.settle(Done, why) // the node is well
		return
	}
	m.settle(Failed, why)
}

func (c *Chains) followRollback(ctx context.Context, r *run, m *Member, rec chain.Record, u agentlifecycle.Work) error {
	switch {
	case rec.Status == chain.Completed || rec.Status == chain.Reconciled:
		m.settle(TakenBack, "")
		r.Publish(chain.Message{Type: broker.AgentRolledBackEvent, Subject: "node/" + m.NodeID, Data: map[string]any{
			"run_id": rec.ID, "node_id": m.NodeID, "task_id": strings.Join(u.Tasks[:min(1, len(u.Tasks))], ""), "from": m.From,
			"to":      r.State.Release.Version,
			"outcome": TakenBack, "reason": m.Code, "seconds": seconds(rec), "switch_seconds": 0,
		}})
	case rec.Status == chain.Cancelled && u.BegunAt.IsZero():
		m.settleStuck("run_cancelled")
	case rec.Status == chain.Cancelled:
		m.settle(Failed, "run_cancelled")
	case rec.Status.Stopped():
		code, _ := reasonOf(rec)
		if err := c.Nodes.Cancel(ctx, rec.ID, "it stopped at "+rec.Stage); err != nil {
			return storeFault(err)
		}
		if u.BegunAt.IsZero() {
			m.settleStuck(code)
			return nil
		}
		m.settle(Failed, code)
	}
	return nil
}
