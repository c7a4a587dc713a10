package onboarding

import (
	"context"
	"strings"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

// isReleased reports whether nothing is left to release: the machine has no owner, or this run has
// released and redeployed it.
func (c *Chains) isReleased(ctx context.Context, r *run) (bool, error) {
	rc := r.State.Reclaim
	if !rc.AskedAt.IsZero() && rc.ReadyAt.IsZero() {
		return false, nil // the release is in progress: releaseMachine waits and reports
	}
	at, err := c.at(ctx, r)
	if err != nil {
		return false, err
	}
	if gone, err := at.find(ctx); err != nil || gone {
		return false, err
	}
	switch {
	case !rc.ReadyAt.IsZero() && at.marked():
		r.Note(nil, "machine %s was released at %s, and is %s for this run", at.displayName(), rc.ReadyAt.Format("15:04"),
			taskcatalog.Clean(at.StatusName, 64))
		return true, nil
	case !at.available() || at.unsure():
		return false, nil
	}
	return true, at.released(ctx)
}

// releaseMachine gives the node's machine back to MAAS in separate steps: the intent, the mark of a
// machine adopted without a mark, and the release. Then the stage waits until the machine has no
// owner. Only a look decides about the result of a former step.
func (c *Chains) releaseMachine(ctx context.Context, r *run) error {
	at, err := c.at(ctx, r)
	if err != nil {
		return err
	}
	rc := r.State.Reclaim
	switch gone, err := at.findInList(ctx); {
	case err != nil:
		return err
	case gone:
		return at.recordGone()
	case at.available():
		return at.released(ctx)
	case at.unsure() && at.Status != maas.Releasing && at.Status != maas.DiskErasing:
		return at.outcomeUnknown()
	}
	marked, err := c.ofNode(ctx, at)
	if err != nil {
		return err
	}
	switch at.Status {
	case maas.Releasing, maas.DiskErasing:
		rc.Erasing = rc.Erasing || at.Status == maas.DiskErasing
		return chain.Again(patience(r, lookAgain), "machine is %s", at.StatusName)
	case maas.Allocated, maas.Deploying, maas.Deployed, maas.FailedDeployment, maas.Reserved, maas.Broken, maas.ReleasingFailed,
		maas.FailedDiskErasing:
	default:
		return chain.Fail(ambiguity, "cannot release machine %s: the machine is %s (end this in MAAS, then resume)", at.displayName(),
			taskcatalog.Clean(at.StatusName, 64)).
			With("machine_not_releasable", map[string]any{"system_id": at.SystemID, "maas_status": at.StatusName})
	}
	if at.Locked {
		return at.locked()
	}
	if err := c.unused(ctx, r.State.NodeID, r.ID); err != nil {
		return err
	}
	switch {
	case rc.AskedAt.IsZero() || !rc.ReadyAt.IsZero():
		if err := at.checkRedeployable(); err != nil {
			return err
		}
		return at.intendRelease(ctx)
	case !marked:
		if err := at.region.Annotate(ctx, at.SystemID, map[string]string{maas.MarkNode: r.State.NodeID, maas.MarkRun: r.ID}); err != nil {
			return at.changeFault(ctx, err)
		}
		return chain.Again(next, "machine %s is marked", at.displayName())
	case rc.Attempt == r.Attempt && at.Status == maas.FailedDiskErasing,
		r.Adopted && rc.Failed > 0 && rc.Downgrade == "" && rc.Sends != maas.EraseNone:
		return at.eraseFailed(ctx)
	case rc.Attempt == r.Attempt && at.Status == maas.ReleasingFailed:
		why := at.failureReason(ctx)
		return chain.Fail(bmcFailure, "MAAS could not release machine %s: %s", at.displayName(), why).With("failed_release", at.details())
	}
	rc.Attempt, rc.Erasing = r.Attempt, false
	if err := at.region.ReleaseErasing(ctx, at.SystemID, rc.nextErase(), "hostler run "+r.ID); err != nil {
		return at.powerFault(ctx, err)
	}
	return chain.Again(soon, "machine %s is being released", at.displayName())
}

// ofNode refuses a machine that is not this node's to take back. The node's mark, written by any
// run of this broker, and the owner, who must be the user of the site's token, prove that the
// machine is the node's. An adoption leaves no mark: the machine of an adopted node may have no
// mark, or the mark of a node that this broker has deleted, if the machine is Deployed and has the
// node's hostname. marked: the machine has the node's own mark.
func (c *Chains) ofNode(ctx context.Context, at *place) (marked bool, err error) {
	s, rc := at.state, at.state.Reclaim
	user := rc.User
	if user == "" {
		if user, err = at.region.WhoAmI(ctx); err != nil {
			return false, at.unseen(ctx, err)
		}
	}
	node, run := at.Annotations[maas.MarkNode], at.Annotations[maas.MarkRun]
	switch {
	case at.Owner == "" || at.Owner != user:
		return false, at.refuseOwned("its owner is not " + taskcatalog.Clean(user, 64) + ", to whom this site's token belongs")
	case node == s.NodeID && run != "":
		return true, nil
	case !rc.Adopted:
		return false, at.refuseOwned("the machine is not marked for node " + s.NodeID)
	case at.Status != maas.Deployed:
		return false, at.refuseOwned("node " + s.NodeID + " was adopted, and its machine was Deployed then")
	case !strings.EqualFold(at.Hostname, s.Hostname) && !strings.EqualFold(at.FQDN, s.Hostname):
		return false, at.refuseOwned("node " + s.NodeID + " is called " + s.Hostname)
	case node == "" && run == "":
		return false, nil
	}
	gone, err := c.ownDeletedMark(ctx, node, run)
	switch {
	case err != nil:
		return false, err
	case !gone:
		return false, at.refuseOwned("the machine is not marked for node " + s.NodeID)
	}
	return false, nil
}

// refuseOwned is refuseForeign with another next action: the machine's owner releases it.
func (at *place) refuseOwned(why string) error {
	return at.refuseForeign(why).
		Next("find out who owns the machine; if it is the right machine, its owner releases it in MAAS, then resume")
}

// recordGone handles a machine that somebody has deleted from MAAS. A person may accept the
// deletion if the machine is not to be redeployed.
func (at *place) recordGone() error {
	s, rc := at.state, at.state.Reclaim
	if rc.Redeploys || !at.run.Adopted {
		return chain.Fail(ambiguity, "machine %s of node %s was deleted from MAAS, so its state is unknown", s.SystemID, s.NodeID).
			With("machine_gone", nil).Next("find the machine, check that it is off and its disks are erased, then adopt; or cancel")
	}
	rc.Did = maas.EraseNone
	if rc.Erase != maas.EraseNone {
		rc.Downgrade = "MAAS has no record of machine " + s.SystemID + " any more, and did not erase its disks for this run"
		s.warn(rc.Downgrade)
	}
	rc.ReadyAt = at.run.Now
	s.warn("machine " + s.SystemID + " was deleted from MAAS before it was released, which an operator accepted")
	at.run.Note(nil, "machine %s is not in MAAS any more, which an operator accepted", s.SystemID)
	return nil
}

// checkRedeployable refuses, before anything is erased, to give back a machine that could not be
// redeployed. A machine never commissioned by MAAS becomes New, not Ready, and must be commissioned
// before the redeployment; for this, MAAS must be able to switch the power.
func (at *place) checkRedeployable() error {
	rc := at.state.Reclaim
	switch {
	case !rc.Redeploys || at.Commissioned == maas.ScriptsPassed:
		return nil
	case !maas.SwitchedBy(at.PowerType):
		return chain.Fail(inputError,
			"machine %s was never commissioned in MAAS, and MAAS cannot switch its power (power type %q): after a release it would be New, and could not be deployed again; nothing was changed",
			at.displayName(), taskcatalog.Clean(at.PowerType, 32)).With("machine_not_commissionable",
			map[string]any{"system_id": at.SystemID, "power_type": at.PowerType}).
			Next("set the address and login of the machine's BMC in MAAS, then resume; or cancel, and clean the node without MAAS (soft_reset)")
	}
	at.state.warn("machine " + at.displayName() +
		" was never commissioned in MAAS: it is commissioned between its release and its deployment, for which it must boot from the network")
	return nil
}

// intendRelease saves the intent to release the machine before anything is done: the owner, and the
// effect on the disks. The machine's own token can be read only until the release; its digest
// proves later that the machine has another token.
func (at *place) intendRelease(ctx context.Context) error {
	s, rc := at.state, at.state.Reclaim
	if !rc.ReadyAt.IsZero() { // the results of an earlier release do not count any more
		rc.ReadyAt, rc.Did, rc.Downgrade, rc.Failed, rc.Attempt = zero, "", "", 0, 0
	}
	user, err := at.region.WhoAmI(ctx)
	if err != nil {
		return at.unseen(ctx, err)
	}
	token, has, err := at.region.OwnToken(ctx, at.SystemID)
	if err != nil {
		return at.unseen(ctx, err)
	}
	sends, err := at.willErase(ctx, rc.nextErase())
	if err != nil {
		return err
	}
	if s.IPMIIP == "" {
		bmcs, err := at.region.Addresses(ctx, listAge)
		if err != nil {
			return at.unseen(ctx, err)
		}
		if s.IPMIIP = taskcatalog.Clean(bmcs[at.SystemID], 64); maas.Comparable(s.IPMIIP) {
			at.run.Lock("ipmi/" + s.Site + "/" + s.IPMIIP)
		}
	}
	if has {
		rc.Token, rc.TokenDiffers = token.Digest(at.SystemID), false
	}
	rc.User, rc.Sends, rc.AskedAt, rc.Erasing = user, sends, at.run.Now, false
	return chain.Again(next, "about to release machine %s", at.displayName())
}

// released records that the machine has no owner, once MAAS can no longer carry out a request of
// this run late: a late request would hit the redeployed machine.
func (at *place) released(ctx context.Context) error {
	s, rc := at.state, at.state.Reclaim
	if at.unsure() {
		return at.outcomeUnknown()
	}
	if rc.ReadyAt.IsZero() {
		if err := at.judgeErase(ctx); err != nil {
			return err
		}
		rc.ReadyAt = at.run.Now
	}
	s.Erased = 0
	at.run.Note(map[string]string{
		"system_id": at.SystemID, "erase": rc.Erase, "did": rc.Did, "downgrade": rc.Downgrade,
		"maas_status": at.StatusName,
	},
		"machine %s is %s; of its disks MAAS erased: %s", at.displayName(), taskcatalog.Clean(at.StatusName, 64), rc.Did)
	return nil
}

// awaitSettled is the whole undo of the stages that take a machine back. The undo does not end
// while MAAS may still carry out a request of this run. Another run might have the machine by then.
func (c *Chains) awaitSettled(_ context.Context, r *run) error {
	if at := (&place{run: r, state: &r.State}); at.unsure() {
		return chain.Again(settle, "MAAS may still perform an action that it did not answer")
	}
	return nil
}

// lastFailure is MAAS's text about the machine's last failure.
func (at *place) lastFailure() string {
	if text := taskcatalog.Clean(at.ErrorDescription, 300); text != "" {
		return text
	}
	return taskcatalog.Clean(at.StatusMessage, 300)
}

func (at *place) details() map[string]any {
	return map[string]any{
		"system_id": at.SystemID, "maas_status": at.StatusName, "power": at.PowerState,
		"status_message": taskcatalog.Clean(at.StatusMessage, 500), "error_description": taskcatalog.Clean(at.ErrorDescription, 500),
	}
}
