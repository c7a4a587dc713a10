package allocation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/taskcatalog"
)

// endUsers ends the account on all nodes at once, and waits for all.
func (c *Chains) endUsers(ctx context.Context, r *run, a broker.Allocation) error {
	var waits, wrong error
	for _, id := range r.State.NodeIDs {
		if r.State.unended(id, a) != "" { // its reimage ends the account
			continue
		}
		switch account, err := c.Records.Account(ctx, a, id); {
		case err != nil:
			return failed(err)
		case account != AccountLives:
			continue
		}
		switch k, err := c.task(ctx, r, id, "allocation.revoke_user", taskcatalog.RevokeUserParams{
			AllocationID: a.ID, Username: broker.AllocationAccount, GraceSeconds: r.State.GraceSeconds,
		}); {
		case isFailure(err):
			wrong = errors.Join(wrong, err)
			r.State.blame(k, err)
		case err != nil:
			waits = err
		}
	}
	switch {
	case waits != nil: // the other nodes go on although one has failed
		return waits
	case wrong != nil:
		return failed(wrong)
	}
	if len(r.State.Unended) > 0 {
		r.Note(nil, "no node but those that are reimaged has the tenant's account")
		return nil
	}
	r.Note(nil, "no node has the tenant's account")
	return nil
}

// turnOver has each node turned over, and releases the allocation when each node is proven clean. After
// the release, its nodes are another tenant's: nothing is looked at any more.
func (c *Chains) turnOver(ctx context.Context, r *run, a broker.Allocation) error {
	holders, err := c.holders(ctx, r)
	if err != nil {
		return err
	}
	proven, err := c.Records.Proven(ctx, a)
	if err != nil {
		return failed(err)
	}
	var waits, stopped error
	certificates := []string{}
	for _, id := range r.State.NodeIDs {
		if certificate, clean := proven[id]; clean {
			certificates = append(certificates, certificate)
			continue
		}
		err := c.turnNodeOver(ctx, r, a, id, holders[id])
		if isFailure(err) {
			stopped = errors.Join(stopped, err)
		} else {
			waits = err
		}
	}
	switch {
	case waits != nil: // the other nodes are cleaned although one has failed
		return waits
	case stopped != nil:
		return failed(stopped)
	}
	if err := c.reach(ctx, r, Change{
		To: broker.AllocationReleased, Reason: "each node was cleaned", CertificateIDs: certificates,
	}); err != nil {
		return err
	}
	r.Note(map[string]any{"certificates": certificates}, "each node is clean")
	return nil
}

// turnNodeOver has a node turned over, by the run that has the node or by a new run. The result is
// never nil: the node's certificate is looked for at the next call.
func (c *Chains) turnNodeOver(ctx context.Context, r *run, a broker.Allocation, nodeID string, holder *chain.Record) error {
	over := holder == nil && slices.Contains(r.State.Begun, nodeID)
	if over || holder != nil && holder.Status.Stopped() {
		switch replaced, err := c.Records.Replaced(ctx, nodeID, r.State.Followed); {
		case err != nil:
			return failed(err)
		case replaced:
			return chain.Again(soon, "node %s is silent, and a reimage of it is about to begin", nodeID)
		}
	}
	switch {
	case over:
		return chain.Fail(unmet, "the turnover of node %s ended, and the node is not proven clean (hostler node show %s)", nodeID, nodeID).
			With("turnover_ended", map[string]any{"node_id": nodeID})
	case holder == nil:
		if err := c.beginTurnover(ctx, r, a, nodeID, causeOf(a)); err != nil {
			return err
		}
		return chain.Again(soon, "the turnover of node %s begins", nodeID)
	case !holder.Status.Stopped():
		r.State.follow(holder.ID)
		return chain.Again(soon, "run %s has node %s, and is %s at %s", holder.ID, nodeID, holder.Status, holder.Stage)
	case slices.Contains(r.State.Followed, holder.ID) || !mayResume(holder):
		code := "turnover_stopped"
		if holder.Failure != nil {
			code = codeOf(holder.Failure)
		}
		return chain.Fail(unmet, "run %s of node %s waits for a person, and is %s at %s: %s (%s)", holder.ID, nodeID, holder.Status,
			holder.Stage, code, broker.RunKindOf(holder.Kind).Command("show "+holder.ID)).
			With(code, map[string]any{"node_id": nodeID, "run_id": holder.ID})
	}
	if err := c.Records.Resume(ctx, holder.ID, "allocation "+a.ID+" is released"); err != nil {
		return failed(err)
	}
	r.State.follow(holder.ID)
	return chain.Again(soon, "run %s of node %s was resumed", holder.ID, nodeID)
}

// causeOf is why the nodes of a released allocation are turned over. The certificates have it.
func causeOf(a broker.Allocation) string {
	cause := "allocation " + a.ID + " is released"
	if !a.PassedAt.IsZero() {
		cause += "; the operation of its end did not end well, and was passed over by policy (end_operation_pass_after) at " +
			a.PassedAt.UTC().Format(time.RFC3339)
	}
	return cause
}

// mayResume reports whether a release may let a stopped run go on: a turnover that leads back into
// service, and that no person has stopped.
func mayResume(r *chain.Record) bool {
	return turnsOver(r) && r.Kind != turnover.FullDecommission.Kind() && (r.Failure == nil || r.Failure.Code != chain.CodeMarked)
}

func (s *Work) follow(runID string) {
	if !slices.Contains(s.Followed, runID) {
		s.Followed = append(s.Followed, runID)
	}
}

// giveUp leaves the release to a person. The nodes stay with the allocation.
func (c *Chains) giveUp(ctx context.Context, r *run, _ broker.Allocation) error {
	r.State.keepFailure(r)
	return c.failRelease(ctx, r, CodeCleaningFailed, r.State.FailureCode+": "+r.State.FailureMessage)
}

// cancelRelease leaves the release to a person, too. Turnovers that have begun go on.
func (c *Chains) cancelRelease(ctx context.Context, r *run, _ broker.Allocation) error {
	return c.failRelease(ctx, r, CodeReleaseCancelled, "run "+r.ID+" was cancelled")
}

func (c *Chains) failRelease(ctx context.Context, r *run, code, reason string) error {
	return c.reach(ctx, r, Change{To: broker.AllocationReleaseFailed, Code: code, Reason: reason})
}
