package turnover

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// Tenants are the allocations on nodes.
type Tenants interface {
	// ForceRelease ends live allocations for billing, announced likewise, and leaves the node
	// unchanged: the users are still there. Code: allocation_live, for an allocation outside
	// ends that is on the node, or holds the node for its tenant.
	ForceRelease(ctx context.Context, nodeID, runID, reason string, ends []string) (forced []broker.Occupant, err error)
	// Occupants are the allocations since the node was last handed out clean, live ones first.
	// A user that is being let in at this moment is included, or is refused.
	Occupants(ctx context.Context, nodeID string) ([]broker.Occupant, error)
	// RootSinceReimage reports whether a tenant had root on the node since its last reimage with a
	// certificate, whatever was turned over in between.
	RootSinceReimage(ctx context.Context, nodeID string) (bool, error)
	// UnendedOperation is an operation that may still run on the node: the node got its task, and has said no end of it since
	// its last reimage with a certificate; empty: none.
	UnendedOperation(ctx context.Context, nodeID string) (string, error)
}

// cleanVacant is cleanStorage for a node that stays in service, after its users have gone.
func (c *Chains) cleanVacant(ctx context.Context, r *run) error {
	if _, asked := r.State.lastTask(r.Stage); !asked {
		if err := c.vacate(ctx, r); err != nil {
			return err
		}
	}
	return c.cleanStorage(ctx, r)
}

// vacate ends the node's allocations, for billing and then on the node itself, if the request
// forces this. Otherwise the store refuses (allocation_live), and a node with users, or held for a
// tenant without a user, is left alone.
func (c *Chains) vacate(ctx context.Context, r *run) error {
	s := &r.State
	live, err := c.live(ctx, r)
	if err != nil {
		return err
	}
	forced, err := c.Nodes.ForceRelease(ctx, s.NodeID, r.ID, s.Reason, s.Ends)
	if err != nil {
		return taskstage.Records(err)
	}
	for _, a := range forced {
		s.warn("allocation %s was ended by force", a.Describe())
	}
	return c.endUsersOf(ctx, r, live)
}

// endUsersOf has the node remove the users of allocations, one after another.
func (c *Chains) endUsersOf(ctx context.Context, r *run, live []broker.Occupant) error {
	for _, a := range live {
		_, err := c.request(ctx, r, residue, taskstage.Task{Type: "allocation.revoke_user", Params: taskcatalog.RevokeUserParams{
			AllocationID: a.ID, Username: a.Username, GraceSeconds: r.State.Policy.DrainGraceSeconds,
		}}, a.ID)
		if err != nil {
			return err
		}
	}
	return nil
}
