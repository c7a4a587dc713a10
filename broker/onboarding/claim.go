package onboarding

import (
	"context"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

// Claims tell whether a machine or its node is taken.
type Claims interface {
	// Bound returns the bound node of the machine, if not deleted; empty: none, or the node that
	// this run made. For a run over an existing node, Bound may return this node if no other is
	// bound to the machine as well.
	Bound(ctx context.Context, site, systemID, runID string) (nodeID string, err error)
	// InUse returns why the run must not take back the machine of a node: the node may be in use,
	// or a turnover that is not the run's own is owed. Empty: the run may take it; the same holds
	// for an unknown node.
	InUse(ctx context.Context, nodeID, runID string) (why string, err error)
}

// agentName is the agent name under which a run allocates. MAAS never discloses an agent name, so
// nobody else uses this name by accident.
func agentName(runID string) string { return "hostler-" + runID }

// marked reports whether the machine is certainly this run's: the machine carries the run's mark,
// and the owner is the user who wrote the mark.
func (at *place) marked() bool {
	c := at.state.Claim
	return c != nil && c.on(at.Machine, at.run.ID)
}

// on reports whether a machine carries a run's mark and is owned by the user who wrote the mark.
func (c Claim) on(m maas.Machine, runID string) bool {
	return c.SystemID == m.SystemID && m.Owner == c.User && m.Owner != "" && m.Annotations[maas.MarkRun] == runID &&
		m.Annotations[maas.MarkNode] == c.NodeID
}

// claimed reports whether this run allocated the machine and its broker died before writing the
// mark: the saved intent names the machine, the owner is the run's user, there is no mark, and MAAS
// finds the machine under the run's agent name.
func (at *place) claimed(ctx context.Context) (bool, error) {
	c := at.state.Claim
	if c == nil || c.SystemID != at.SystemID || at.Status != maas.Allocated || at.Owner != c.User || at.Owner == "" {
		return false, nil
	}
	if at.Annotations[maas.MarkRun] != "" || at.Annotations[maas.MarkNode] != "" {
		return false, nil
	}
	is, err := at.region.HasAgentName(ctx, at.SystemID, agentName(at.run.ID))
	if err != nil {
		return false, at.unseen(ctx, err)
	}
	return is, nil
}

// free reports whether the machine has no owner and no mark.
func (at *place) free() bool {
	return at.Owner == "" && at.Annotations[maas.MarkRun] == "" && at.Annotations[maas.MarkNode] == ""
}

// leftover reports whether the owner is only a remnant: MAAS leaves our user as the owner when it
// could not switch the power of a machine that our user commissioned, or when the machine's tests
// failed. Another commissioning or test removes the owner.
func (at *place) leftover() bool {
	return (at.Status == maas.New || at.Status == maas.FailedCommissioning || at.Status == maas.FailedTesting || at.Status == maas.Ready) &&
		at.Owner != "" && at.Owner == at.state.MAASUser &&
		at.Annotations[maas.MarkRun] == "" && at.Annotations[maas.MarkNode] == ""
}

// refuseForeign refuses a machine that this run must not touch.
func (at *place) refuseForeign(why string) *chain.Failure {
	of := ""
	if at.Owner != "" {
		of = " of " + taskcatalog.Clean(at.Owner, 64)
	}
	if n, r := at.Annotations[maas.MarkNode], at.Annotations[maas.MarkRun]; n != "" || r != "" {
		of += ", marked for node " + taskcatalog.Clean(n, 64) + " by run " + taskcatalog.Clean(r, 64)
	}
	return chain.Fail(ambiguity, "machine %s is %s%s: %s", at.displayName(), taskcatalog.Clean(at.StatusName, 64), of, why).
		With("machine_not_ours", map[string]any{"system_id": at.SystemID, "maas_status": at.StatusName, "owner": at.Owner})
}

// locked refuses a machine that somebody has locked in MAAS.
func (at *place) locked() error {
	return chain.Fail(ambiguity, "machine %s is locked in MAAS (if it is the right machine, unlock it there)",
		at.displayName()).With("machine_locked", nil)
}

// claimMachine claims a Ready machine for this run in separate steps for the intent, allocate and
// the mark. true: the machine is marked.
func (c *Chains) claimMachine(ctx context.Context, at *place) (bool, error) {
	s := at.state
	switch {
	case at.marked():
		return true, nil
	case at.Status == maas.Ready && at.free():
		if err := c.unbound(ctx, at); err != nil {
			return false, err
		}
		if s.Claim == nil || s.Claim.SystemID != s.SystemID || s.Claim.NodeID != s.NodeID || !s.DeployedAt.IsZero() {
			return false, c.saveClaim(ctx, at)
		}
		return false, at.allocate(ctx)
	case at.Status == maas.Allocated:
		is, err := at.claimed(ctx)
		if err != nil {
			return false, err
		}
		if is {
			return false, at.annotate(ctx)
		}
	}
	return false, at.refuseForeign("this run did not claim it")
}

// saveClaim saves, before anything is done, which machine the run will take.
func (c *Chains) saveClaim(ctx context.Context, at *place) error {
	user, err := at.region.WhoAmI(ctx)
	if err != nil {
		return at.unseen(ctx, err)
	}
	at.run.StartOver() // a deployment of an earlier pass does not count any more
	at.state.DeployedAt = zero
	was := at.state.Claim
	at.state.Claim = &Claim{SystemID: at.SystemID, NodeID: at.state.NodeID, User: user, At: at.run.Now}
	if was != nil && was.SystemID == at.SystemID {
		at.state.Claim.Unheard = was.Unheard
	}
	return chain.Again(next, "about to allocate machine %s", at.displayName())
}

func (at *place) allocate(ctx context.Context) error {
	owner, err := at.region.Allocate(ctx, at.SystemID, agentName(at.run.ID), "hostler run "+at.run.ID)
	if err != nil {
		return at.changeFault(ctx, err)
	}
	at.state.Claim.User = owner
	return chain.Again(next, "machine %s is allocated, and not yet marked", at.displayName())
}

func (at *place) annotate(ctx context.Context) error {
	c := at.state.Claim
	if err := at.region.Annotate(ctx, at.SystemID, map[string]string{maas.MarkNode: c.NodeID, maas.MarkRun: at.run.ID}); err != nil {
		return at.changeFault(ctx, err)
	}
	return chain.Again(next, "machine %s is marked", at.displayName())
}

// unbound refuses a machine that is bound to another node.
func (c *Chains) unbound(ctx context.Context, at *place) error {
	node, err := c.Nodes.Bound(ctx, at.state.Site, at.SystemID, at.run.ID)
	switch {
	case err != nil:
		return storeFault(err)
	case node != "" && node != at.state.NodeID:
		return at.refuseForeign("node " + node + " is bound to it")
	}
	return nil
}

// releaseClaim releases this run's machine, and waits until MAAS has finished. A machine without
// the mark is marked first: a failed release removes the agent name that proves the claim, and
// leaves the mark. Another owner's machine is left unchanged. No undo, rescue or restart_clean
// takes the machine from a node in use.
func (c *Chains) releaseClaim(ctx context.Context, at *place) error {
	is := at.marked()
	if !is {
		claimed, err := at.claimed(ctx)
		switch {
		case err != nil:
			return err
		case claimed && !at.Locked:
			return at.annotate(ctx)
		}
		is = claimed
	}
	claim := at.state.Claim
	switch {
	case !is && claim != nil && claim.Released && at.Status == maas.Releasing && at.Owner == claim.User:
		return chain.Again(lookAgain, "machine is %s", at.StatusName) // released by this run before it had the mark
	case !is:
		return nil
	case at.Locked:
		return at.locked()
	}
	switch at.Status {
	case maas.Releasing, maas.DiskErasing:
		return chain.Again(lookAgain, "machine is %s", at.StatusName)
	case maas.New, maas.Ready:
		return nil
	case maas.Allocated, maas.Deploying, maas.Deployed, maas.FailedDeployment, maas.Reserved, maas.Broken, maas.ReleasingFailed,
		maas.FailedDiskErasing:
		if err := c.unused(ctx, at.state.Claim.NodeID, at.run.ID); err != nil {
			return err
		}
		if err := at.region.Release(ctx, at.SystemID, "hostler run "+at.run.ID); err != nil {
			return at.powerFault(ctx, err)
		}
		claim.Released = true
		return chain.Again(soon, "machine %s is being released", at.displayName())
	}
	return chain.Fail(ambiguity, "cannot release machine %s: the machine is %s (end this in MAAS, then retry_stage)", at.displayName(),
		taskcatalog.Clean(at.StatusName, 64)).
		With("machine_not_releasable", nil)
}

// unused refuses to take the machine of a node that somebody may be working on, or whose turnover
// is owed, whatever the mark says. A tenant may be there if the node was activated outside this
// run, or if the save of the run's last stage was lost.
func (c *Chains) unused(ctx context.Context, nodeID, runID string) error {
	why, err := c.Nodes.InUse(ctx, nodeID, runID)
	switch {
	case err != nil:
		return storeFault(err)
	case why == "":
		return nil
	}
	return chain.Fail(ambiguity,
		"the machine of node %s is not released: %s (drain the node first: hostler node drain %s, then retry; or cancel the run, which leaves the machine unchanged)", nodeID, why, nodeID).
		With("node_in_use", map[string]any{"node_id": nodeID, "why": why})
}
