package allocation

import (
	"context"
	"errors"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// endUsers ends the account on all nodes at once, and waits for all.
func (c *Chains) endUsers(ctx context.Context, r *run) error {
	a, err := c.allocation(ctx, r)
	if err != nil {
		return err
	}
	var waits, wrong error
	ended := 0
	for _, id := range r.State.NodeIDs {
		switch account, err := c.Records.Account(ctx, a, id); {
		case err != nil:
			return failed(taskstage.Records(err))
		case account != AccountLives:
			continue
		}
		k, err := taskstage.Await(ctx, c.Records, taskstage.Task{
			Key: r.Key() + "/" + id, NodeID: id, RunID: r.ID, Type: "allocation.revoke_user",
			Params: taskcatalog.RevokeUserParams{
				AllocationID: a.ID, Username: broker.AllocationAccount, GraceSeconds: r.State.GraceSeconds,
			},
		})
		switch {
		case isFailure(err):
			wrong = err
		case err != nil:
			waits = err
		default:
			wrong = errors.Join(wrong, taskstage.Judge(k, unmet))
			ended++
		}
	}
	switch {
	case waits != nil: // the other nodes go on although one has failed
		return waits
	case wrong != nil:
		return failed(wrong)
	}
	r.Note(map[string]any{"nodes": ended}, "the tenant's account was ended on %d nodes", ended)
	return nil
}

// turnOver has each node turned over, and releases the allocation when each node is proven clean.
func (c *Chains) turnOver(ctx context.Context, r *run) error {
	a, err := c.allocation(ctx, r)
	if err != nil {
		return err
	}
	proven, err := c.Records.Proven(ctx, a)
	if err != nil {
		return failed(taskstage.Records(err))
	}
	var waits, stopped error
	certificates := []string{}
	for _, id := range r.State.NodeIDs {
		if certificate, clean := proven[id]; clean {
			certificates = append(certificates, certificate)
			continue
		}
		err := c.turnNodeOver(ctx, r, a, id)
		if isFailure(err) {
			stopped = err
		} else if err != nil {
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
func (c *Chains) turnNodeOver(ctx context.Context, r *run, a broker.Allocation, nodeID string) error {
	holder, err := c.Records.Holder(ctx, nodeID)
	switch {
	case err != nil:
		return taskstage.Records(err)
	case holder == nil:
		return c.beginTurnover(ctx, r, a, nodeID)
	case !holder.Status.Stopped():
		r.State.follow(holder.ID)
		return chain.Again(soon, "run %s has node %s, and is %s at %s", holder.ID, nodeID, holder.Status, holder.Stage)
	case slices.Contains(r.State.Followed, holder.ID) || !broker.RunKindOf(holder.Kind).TurnsOver:
		code := "turnover_stopped"
		if holder.Failure != nil {
			code = codeOf(holder.Failure)
		}
		return chain.Fail(unmet, "run %s of node %s waits for a person, and is %s at %s: %s (%s)", holder.ID, nodeID, holder.Status,
			holder.Stage, code, broker.RunKindOf(holder.Kind).Command("show "+holder.ID)).
			With(code, map[string]any{"node_id": nodeID, "run_id": holder.ID})
	}
	if err := taskstage.Records(c.Records.Resume(ctx, holder.ID, "allocation "+a.ID+" is released")); err != nil {
		return err
	}
	r.State.follow(holder.ID)
	return chain.Again(soon, "run %s of node %s was resumed", holder.ID, nodeID)
}

func (c *Chains) beginTurnover(ctx context.Context, r *run, a broker.Allocation, nodeID string) error {
	if slices.Contains(r.State.Begun, nodeID) {
		return chain.Fail(unmet, "the turnover of node %s ended, and the node is not proven clean (hostler node show %s)", nodeID, nodeID).
			With("turnover_ended", map[string]any{"node_id": nodeID})
	}
	if err := taskstage.Records(c.Records.TurnOver(ctx, a, nodeID, "allocation "+a.ID+" is released")); err != nil {
		return err
	}
	r.State.Begun = append(r.State.Begun, nodeID)
	return chain.Again(soon, "the turnover of node %s begins", nodeID)
}

func (s *Work) follow(runID string) {
	if !slices.Contains(s.Followed, runID) {
		s.Followed = append(s.Followed, runID)
	}
}

// giveUp leaves the release to a person. The nodes stay with the allocation.
func (c *Chains) giveUp(ctx context.Context, r *run) error {
	r.State.Code = codeOf(r.Failure)
	return c.reach(ctx, r, Change{To: broker.AllocationReleaseFailed, Code: r.State.Code, Reason: r.Failure.Message})
}

// cancelRelease leaves the release to a person, too. Turnovers that have begun go on.
func (c *Chains) cancelRelease(ctx context.Context, r *run) error {
	r.State.Code = codeReleaseCancelled
	return c.reach(ctx, r, Change{To: broker.AllocationReleaseFailed, Code: r.State.Code, Reason: "run " + r.ID + " was cancelled"})
}

func isFailure(err error) bool {
	_, is := errors.AsType[*chain.Failure](err)
	return is
}
