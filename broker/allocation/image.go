package allocation

import (
	"context"
	"errors"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

// installImage has each node reimaged that has another image than the one that was asked for, and waits for
// all. The reimage lets the node in on a certificate, as every turnover, before the tenant gets an account.
func (c *Chains) installImage(ctx context.Context, r *run, a broker.Allocation) error {
	if a.Image == "" {
		r.AlreadyDone(nil, "no image was asked for")
		return nil
	}
	if err := c.begin(ctx, r); err != nil {
		return err
	}
	holders, err := c.holders(ctx, r) // before the images: a reimage that has ended by then has recorded its image
	if err != nil {
		return err
	}
	have, err := c.Records.HaveImage(ctx, a)
	if err != nil {
		return failed(err)
	}
	var waits, wrong error
	for _, id := range r.State.NodeIDs {
		switch err := c.installOn(ctx, r, a, id, holders[id], have[id]); {
		case isFailure(err):
			wrong = errors.Join(wrong, err)
		case err != nil:
			waits = err
		}
	}
	switch {
	case wrong != nil: // the other reimages go on, and their nodes become free
		return failed(wrong)
	case waits != nil:
		return waits
	}
	r.Note(map[string]any{"image": a.Image, "reimaged": len(r.State.Installing)}, "each node has image %s; %d were reimaged for it", a.Image,
		len(r.State.Installing))
	return nil
}

// installOn returns nil when a node has the image and no run has the node.
func (c *Chains) installOn(ctx context.Context, r *run, a broker.Allocation, nodeID string, holder *chain.Record, has bool) error {
	switch {
	case holder != nil && holder.Status.Stopped():
		return chain.Fail(unmet, "run %s of node %s waits for a person, and is %s at %s (%s)", holder.ID, nodeID, holder.Status,
			holder.Stage, broker.RunKindOf(holder.Kind).Command("show "+holder.ID)).
			With(CodeImageNotInstalled, map[string]any{"node_id": nodeID, "run_id": holder.ID})
	case holder != nil:
		// The broker may have died between the start of the reimage and the note of it.
		if holder.CorrelationID == a.ID && !slices.Contains(r.State.Installing, nodeID) {
			r.State.Installing = append(r.State.Installing, nodeID)
		}
		return chain.Again(soon, "run %s has node %s, and is %s at %s", holder.ID, nodeID, holder.Status, holder.Stage)
	case has:
		return nil
	case slices.Contains(r.State.Installing, nodeID):
		return chain.Fail(unmet, "the reimage of node %s ended, and the node does not have image %s (hostler node timeline %s)", nodeID,
			a.Image, nodeID).With(CodeImageNotInstalled, map[string]any{"node_id": nodeID})
	}
	waits, err := c.Records.Install(ctx, a, nodeID)
	switch {
	case err != nil:
		return failed(err)
	case waits != "":
		return chain.Again(forPlace, "node %s: %s", nodeID, waits)
	}
	r.State.Installing = append(r.State.Installing, nodeID)
	return chain.Again(soon, "the reimage of node %s begins", nodeID)
}

// failWithoutImage ends an allocation whose image could not be installed. No node of it has the tenant's
// account. A node whose reimage has stopped stays with that run.
func (c *Chains) failWithoutImage(ctx context.Context, r *run, _ broker.Allocation) error {
	r.State.keepFailure(r)
	return c.fail(ctx, r, Change{Code: CodeImageNotInstalled, Reason: r.State.FailureCode + ": " + r.State.FailureMessage})
}
