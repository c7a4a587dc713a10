package allocation

import (
	"cmp"
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// codeCancelled is the code of an allocation whose run an operator has cancelled.
const (
	codeCancelled        = "provisioning_cancelled"
	codeReleaseCancelled = "release_cancelled"
)

func (c *Chains) begin(ctx context.Context, r *run) error {
	return c.reach(ctx, r, Change{To: broker.AllocationProvisioning, Reason: "the nodes are made ready"})
}

// provisionUsers makes the account on all nodes at once, and waits for all. The store judges each
// node again in the transaction that queues its task.
func (c *Chains) provisionUsers(ctx context.Context, r *run) error {
	a, err := c.allocation(ctx, r)
	if err != nil {
		return err
	}
	keys, err := c.Records.Keys(ctx, a)
	if err != nil {
		return failed(taskstage.Records(err))
	}
	var waits error
	for _, id := range r.State.NodeIDs {
		if slices.Contains(r.State.Ready, id) {
			continue
		}
		k, err := taskstage.Await(ctx, c.Records, taskstage.Task{
			Key: r.Key() + "/" + id, NodeID: id, RunID: r.ID, Type: "allocation.provision_user",
			Params: taskcatalog.ProvisionUserParams{
				AllocationID: a.ID, Username: broker.AllocationAccount, SSHKeys: keys, Tenant: r.State.Tenant,
			},
		})
		switch {
		case isFailure(err):
			return failed(err)
		case err != nil:
			waits = err
			continue
		}
		if err := failed(taskstage.Judge(k, unmet)); err != nil {
			return err
		}
		r.State.Ready = append(r.State.Ready, id)
	}
	if waits != nil {
		return waits
	}
	r.Note(map[string]any{"nodes": len(r.State.Ready), "keys": len(keys)}, "%d nodes have the tenant's account", len(r.State.Ready))
	return nil
}

func (c *Chains) activate(ctx context.Context, r *run) error {
	return c.reach(ctx, r, Change{To: broker.AllocationActive, Reason: "the nodes are ready"})
}

// giveBack ends an allocation that could not be provisioned.
func (c *Chains) giveBack(ctx context.Context, r *run) error {
	r.State.Code = codeOf(r.Failure)
	return c.fail(ctx, r, r.Failure.Message)
}

// cancelProvision ends an allocation whose run is cancelled. An allocation that is active stays so.
func (c *Chains) cancelProvision(ctx context.Context, r *run) error {
	r.State.Code = codeCancelled
	return c.fail(ctx, r, "run "+r.ID+" was cancelled")
}

// fail gives the claims of an allocation back, and has each node turned over on which the account
// may be. The allocation ends before the turnovers begin: a turnover refuses the node of a tenant.
func (c *Chains) fail(ctx context.Context, r *run, reason string) error {
	a, err := c.allocation(ctx, r)
	if err != nil {
		return err
	}
	for _, id := range r.State.NodeIDs {
		if _, err := c.Records.Withdraw(ctx, id, r.ID, reason); err != nil {
			return failed(taskstage.Records(err))
		}
	}
	if a.Status == broker.AllocationRequested { // only an allocation in provisioning can fail
		if err := c.begin(ctx, r); err != nil {
			return err
		}
	}
	if err := c.reach(ctx, r, Change{To: broker.AllocationFailed, Code: r.State.Code, Reason: reason}); err != nil {
		return err
	}
	begun := 0
	for _, id := range r.State.NodeIDs {
		account, err := c.Records.Account(ctx, a, id)
		if err != nil {
			return failed(taskstage.Records(err))
		}
		if account == NoAccount {
			continue
		}
		if err := c.Records.TurnOver(ctx, a, id, "allocation "+a.ID+" failed: "+r.State.Code); err != nil {
			return failed(taskstage.Records(err))
		}
		begun++
	}
	r.Note(map[string]any{"code": r.State.Code, "turnovers": begun}, "allocation %s failed: %s; %d nodes are turned over", a.ID, r.State.Code,
		begun)
	return nil
}

func codeOf(f *chain.Failure) string { return cmp.Or(f.Code, string(f.Class)) }
