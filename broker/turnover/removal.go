package turnover

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// Removals are nodes that leave the fleet.
type Removals interface {
	// Retire takes a node out of service whose agent did not drain it, or could not be removed.
	Retire(ctx context.Context, nodeID, runID, reason string) error
	// Remove begins to delete a retired node, and Deleted completes the deletion: the id is never
	// used again, and the node is never let in again.
	Remove(ctx context.Context, nodeID, runID, reason string) error
	Deleted(ctx context.Context, nodeID, runID, reason string) error
	// ForgetSecrets removes the secrets kept for a node.
	ForgetSecrets(ctx context.Context, nodeID string) error
}

// FullDecommission takes a node out of the fleet. Its id is never used again. The node is cleaned
// while its agent answers. A requested erase of a node outside MAAS must succeed, unless a person
// lets the run continue without it; if MAAS gets the machine back, a failed erase is only recorded.
// The certificate is made when MAAS has the machine back, so that it includes MAAS's erase. An
// insufficient certificate does not stop the removal, since no tenant gets the node.
func (c *Chains) FullDecommission() chain.Chain[Turnover] {
	certify := stage{
		Name: "issue_clean_certificate", Do: c.certifyLeaving, Retry: retries("issue_clean_certificate"),
		Limit: within(records), About: aboutCertify,
	}
	before := []stage{
		{
			Name: "disable_node", Do: c.disable, Undo: c.keepFromUse, Retry: retries("disable_node"), Limit: within(records),
			About: aboutDisable,
		},
		{
			Name: "force_release_allocations", Done: c.nobodyLive, Do: c.endUsers, Retry: retries("force_release_allocations"),
			Limit: usersLimit, About: aboutForce,
		},
		{
			Name: "drain_node", Do: c.bestEffort(c.drain, c.takeOutOfService), Retry: retries("drain_node"), Waivable: true,
			About: aboutDrain,
		},
		{Name: "scrub_gpu", Done: c.noGPUs, Do: c.bestEffort(c.scrubLeaving, nil), Retry: retries("scrub_gpu"), About: aboutScrub},
		{
			Name: "erase_local_disks", Done: c.nothingToErase, Do: c.eraseLeaving, Retry: retries("erase_local_disks"), Limit: eraseLimit,
			Waivable: true, About: aboutErase,
		},
	}
	release := []stage{c.onMachine(c.MAAS.LoadSite()), c.release(), c.onMachine(c.MAAS.PowerOff())}
	after := []stage{
		{
			Name: "retire_gpuaas_node", Done: c.isRetired, Do: c.retire, Retry: retries("retire_gpuaas_node"), Limit: within(records),
			Pivot: true, About: aboutRetire,
		},
		{
			Name: "remove_gpuaas_node_record", Done: c.isRemoved, Do: c.retireOnFailure(c.remove), Undo: c.keepIdentity,
			Retry: retries("remove_gpuaas_node_record"), Limit: taskLimit("node.uninstall"), About: aboutRemove,
		},
		{
			Name: "cleanup_secrets", Do: c.forgetSecrets, Retry: retries("cleanup_secrets"), Limit: within(records), Optional: true,
			About: aboutSecrets,
		},
		c.onMachine(c.MAAS.RemoveRecord()),
	}
	return chain.Chain[Turnover]{
		Kind: FullDecommission.Kind(), Form: form, Probe: c.probe, Failing: c.diagnose,
		Stages: slices.Concat(before, release, []stage{certify}, after),
		Former: [][]stage{slices.Concat(before, []stage{certify}, release, after)},
	}
}

// eraseLeaving erases the disks. If MAAS gets the machine back, a failure is only recorded.
// Otherwise the erase must succeed before the node leaves.
func (c *Chains) eraseLeaving(ctx context.Context, r *run) error {
	if r.State.Machine.SiteID == "" {
		return c.eraseDisks(ctx, r)
	}
	return c.bestEffort(c.eraseDisks, nil)(ctx, r)
}

// eraseLimit is no limit where bestEffort ends the stage in time.
func eraseLimit(s Turnover) chain.Limit {
	if s.Machine.SiteID != "" {
		return chain.Limit{}
	}
	limit := taskLimit("node.disk_erase")(s)
	limit.Next = "start the agent again, then retry: only the agent can erase the disks of a node that is not in MAAS; or continue without the stage, which the certificate states"
	return limit
}

// nobodyLive reports that no user is on the node.
func (c *Chains) nobodyLive(ctx context.Context, r *run) (bool, error) {
	live, err := c.live(ctx, r)
	return err == nil && len(live) == 0, err
}

// revoke removes the users whose allocations the first stage ended for billing.
func (c *Chains) revoke(ctx context.Context, r *run) error {
	live, err := c.live(ctx, r)
	if err != nil {
		return err
	}
	if err := c.endUsersOf(ctx, r, live); err != nil {
		return err
	}
	r.Note(nil, "%d users are gone from the node", len(live))
	return nil
}

// endUsers removes the users. If MAAS gets the machine back, a failure is only recorded.
// Otherwise the users must be gone before the node leaves.
func (c *Chains) endUsers(ctx context.Context, r *run) error {
	if r.State.Machine.SiteID == "" {
		return c.revoke(ctx, r)
	}
	return c.bestEffort(c.revoke, nil)(ctx, r)
}

// usersLimit is no limit where bestEffort ends the stage in time.
func usersLimit(s Turnover) chain.Limit {
	if s.Machine.SiteID != "" {
		return chain.Limit{}
	}
	return chain.Limit{
		After: time.Duration(s.Policy.DrainTimeoutSeconds) * time.Second, Class: silent, Code: "agent_silent",
		Next: "start the agent again, then retry: only the agent can remove the users of a node that is not in MAAS",
	}
}

// certifyLeaving makes the certificate of a node that no tenant gets. An insufficient certificate
// states its shortfalls, and the removal goes on.
func (c *Chains) certifyLeaving(ctx context.Context, r *run) error {
	s := &r.State
	without := func(err error) error {
		s.warn("no certificate: the node's evidence does not verify: %v", err)
		r.AlreadyDone(nil, "no certificate: the node's evidence does not verify: %v", err)
		return nil
	}
	clean, err := c.statement(ctx, r)
	if f, failed := errors.AsType[*chain.Failure](err); failed && f.Class == untrusted {
		return without(err)
	}
	if err != nil {
		return err
	}
	verdict, err := c.Nodes.Certify(ctx, clean)
	switch {
	case err != nil && taskcatalog.CodeOf(err, "") == "":
		return taskstage.Records(err)
	case err != nil:
		return without(err)
	}
	s.certified(clean.ID, verdict)
	r.Note(map[string]any{"certificate_id": clean.ID, "meets_policy": verdict.MeetsPolicy}, "certificate %s lists what was done", clean.ID)
	return nil
}

// deletionReason is the reason of the deletion, with the certificate. The record of a deleted node
// is kept, and this event is its last.
func (s *Turnover) deletionReason() string {
	switch {
	case s.Issued == "":
		return s.Reason + " (it left without a certificate)"
	case s.MeetsPolicy:
		return s.Reason + " (it left with certificate " + s.Issued + ", which meets the policy)"
	}
	return s.Reason + " (it left with certificate " + s.Issued + ", which does not meet the policy: " + strings.Join(s.Shortfalls, ", ") +
		")"
}

func (c *Chains) isRetired(ctx context.Context, r *run) (bool, error) {
	n, err := c.Nodes.Node(ctx, r.State.NodeID)
	return err == nil && (n.Status == broker.Retired || n.Status == broker.Removing || n.Status == broker.Deleted), taskstage.Records(err)
}

// retire takes a node out of service for good. A node that was found unclean on the way is
// quarantined, and is drained once more from there.
func (c *Chains) retire(ctx context.Context, r *run) error {
	s := &r.State
	if _, err := c.Nodes.Disable(ctx, s.NodeID, r.ID, s.Reason, "", s.Ends); err != nil {
		return taskstage.Records(err)
	}
	return taskstage.Records(c.Nodes.Retire(ctx, s.NodeID, r.ID, s.Reason))
}

// isRemoved reports that the node is already deleted, by this run or by its agent: an earlier
// step of this run may have come so far without a save.
func (c *Chains) isRemoved(ctx context.Context, r *run) (bool, error) {
	s := &r.State
	n, err := c.Nodes.Node(ctx, s.NodeID)
	switch {
	case err != nil || n.Status != broker.Deleted:
		return false, taskstage.Records(err)
	case !s.WipedAt.IsZero():
		r.Note(map[string]any{"maas_status": s.Machine.Seen.Status}, "deleted already: machine %s is not Deployed any more",
			s.Machine.SystemID)
	default:
		r.Note(nil, "deleted already: its agent has removed itself")
	}
	return true, nil
}

// remove deletes the node. If MAAS has its machine back, the agent is gone with the system, and
// the run does not wait for it; without MAAS, the agent must have removed itself.
func (c *Chains) remove(ctx context.Context, r *run) error {
	s := &r.State
	if err := c.Nodes.Remove(ctx, s.NodeID, r.ID, s.Reason); err != nil {
		return taskstage.Records(err)
	}
	if !s.WipedAt.IsZero() {
		if err := c.Nodes.Deleted(ctx, s.NodeID, r.ID, s.deletionReason()); err != nil {
			return taskstage.Records(err)
		}
		r.AlreadyDone(map[string]any{"maas_status": s.Machine.Seen.Status},
			"nothing to uninstall: machine %s is not Deployed any more, and its agent is gone with its system", s.Machine.SystemID)
		return nil
	}
	k, err := c.request(ctx, r, transient, taskstage.Task{Type: "node.uninstall", Params: taskcatalog.UninstallParams{}}, "")
	if err != nil {
		return err
	}
	if err := c.Nodes.Deleted(ctx, s.NodeID, r.ID, s.deletionReason()); err != nil {
		return taskstage.Records(err)
	}
	r.Note(map[string]string{"task_id": k.ID}, "the agent has removed itself (task %s), and the node is deleted", k.ID)
	return nil
}

// retireOnFailure leaves the node retired if its removal fails or misses its limit: the identity is
// kept for another try. If the agent's own result has deleted the node meanwhile, the removal
// counts as done.
func (c *Chains) retireOnFailure(remove func(context.Context, *run) error) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		err := remove(ctx, r)
		if err == nil {
			return nil
		}
		f, failed := errors.AsType[*chain.Failure](err)
		if !failed {
			waited, unknown := r.Since(ctx, r.EnteredAt)
			switch {
			case unknown != nil:
				return unknown
			case waited < taskLimit("node.uninstall")(r.State).After:
				return err
			}
			f = chain.Fail(silent, "not within %v: %w", waited, err).With("agent_silent", nil)
		}
		if err := c.keepIdentity(ctx, r); err != nil {
			return err
		}
		if gone, err := c.isRemoved(ctx, r); gone || err != nil {
			return err
		}
		return f.Next("start the agent of node %s again, then retry: the node is deleted only after its agent has removed itself",
			r.State.NodeID)
	}
}

// keepIdentity keeps the identity of a node that is not removed.
func (c *Chains) keepIdentity(ctx context.Context, r *run) error {
	return c.retireFrom(ctx, r, broker.Removing, "it was not removed")
}

// forgetSecrets removes the secrets kept for the node. Secrets that cannot be removed are left to
// a person, and are reported until then.
func (c *Chains) forgetSecrets(ctx context.Context, r *run) error {
	s := &r.State
	err := c.Nodes.ForgetSecrets(ctx, s.NodeID)
	if s.SecretsLeft = err != nil; !s.SecretsLeft {
		return nil
	}
	why := broker.AsError(err).Message
	if line := "the node's secrets could not be removed"; !slices.Contains(s.Warnings, line) {
		s.warn("%s", line)
	}
	return chain.Fail(transient, "the secrets of node %s could not be removed: %s", s.NodeID, why).With("secrets_left", nil).
		Next("remove the secrets of node %s by hand, or start another cleanup", s.NodeID)
}

var (
	aboutForce  = about("the node: the users of live allocations go", "their memory and home directories", 0)
	aboutRetire = about("the broker: the node is retired", "", 0)
	aboutRemove = about("the node: its agent removes itself, unless MAAS has its machine back; the broker: the record",
		"the node's identity, for good", 0)
	aboutSecrets = about("the broker: the node's secrets", "them", 0)
)
