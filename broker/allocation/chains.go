package allocation

import (
	"context"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

type (
	run   = chain.Run[Work]
	stage = chain.Stage[Work]
)

// Chains builds the lists of this package. One value serves a whole broker.
type Chains struct{ Records Records }

// All are the lists of this package.
func (c *Chains) All() []chain.Kind { return []chain.Kind{c.Provision(), c.Release()} }

// unmet is the class of every failure here: its code says what happened.
const unmet = chain.Class(broker.AllocationUnmet)

// soon is how often a turnover is looked at.
const soon = 2 * time.Second

// Provision is the list that gives an allocation's nodes to its tenant.
func (c *Chains) Provision() chain.Chain[Work] {
	return chain.Chain[Work]{Kind: broker.ProvisionKind, Stages: []stage{
		{
			Name: "begin_provisioning", Do: c.begin, Undo: c.cancelProvision, Retry: again,
			About: about("the broker: the allocation is being provisioned", "", time.Second),
		},
		{
			Name: "provision_users", Do: unlessGivenUp(c.provisionUsers), Retry: again, Limit: taskLimit("allocation.provision_user"),
			About:  about("each node: the tenant's account, with its SSH keys", "", time.Minute),
			Rescue: []stage{{Name: "give_nodes_back", Do: c.giveBack, Retry: again, Then: "provision_users"}},
		},
		{
			Name: "activate", Do: unlessGivenUp(c.activate), Retry: again, Pivot: true,
			About: about("the broker: the allocation is active", "", time.Second),
		},
	}}
}

// Release is the list that takes an allocation's nodes back.
func (c *Chains) Release() chain.Chain[Work] {
	return chain.Chain[Work]{Kind: broker.ReleaseKind, Stages: []stage{
		{
			// A node on which the account cannot be ended here is left to its turnover.
			Name: "end_users", Do: c.endUsers, Undo: c.cancelRelease, Retry: again, Limit: taskLimit("allocation.revoke_user"),
			Optional: true,
			About:    about("each node: the tenant's account ends", "the tenant's processes and home directory", time.Minute),
		},
		{
			Name: "turn_over", Do: unlessGivenUp(c.turnOver), Retry: again,
			About:  about("each node: a turnover", "all that the tenant left on the nodes", 10*time.Minute),
			Rescue: []stage{{Name: "give_release_up", Do: c.giveUp, Retry: again, Then: "turn_over"}},
		},
	}}
}

func again(Work) chain.Retry { return chain.Retry{Attempts: 3, First: 10 * time.Second} }

// unlessGivenUp passes over the rest of a run whose rescue has ended the work.
func unlessGivenUp(do func(context.Context, *run) error) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		if r.State.Code == "" {
			return do(ctx, r)
		}
		r.AlreadyDone(nil, "the run gave allocation %s up: %s", r.State.AllocationID, r.State.Code)
		return nil
	}
}

// silence is how long a node may take to fetch a task.
const silence = 5 * time.Minute

func taskLimit(taskType string) func(Work) chain.Limit {
	return func(Work) chain.Limit {
		after := silence
		if t, err := taskcatalog.Latest(taskType); err == nil {
			after += 2 * t.Deadline
		}
		return chain.Limit{After: after, Class: unmet, Code: "agent_silent"}
	}
}

func about(touches, destructive string, d time.Duration) func(Work) chain.About {
	return func(Work) chain.About {
		return chain.About{Touches: touches, Destructive: destructive, Expected: d}
	}
}

// failed gives a failure the class of this package; its code and message stay. Another error stays
// as it is.
func failed(err error) error {
	f, ok := errors.AsType[*chain.Failure](err)
	if !ok {
		return err
	}
	own := *f
	own.Class = unmet
	if own.Code == "" {
		own.Code = string(f.Class)
	}
	return &own
}

// reach moves the run's allocation to a status.
func (c *Chains) reach(ctx context.Context, r *run, change Change) error {
	change.RunID = r.ID
	return failed(taskstage.Records(c.Records.Reach(ctx, r.State.AllocationID, change)))
}

// allocation reads the run's allocation.
func (c *Chains) allocation(ctx context.Context, r *run) (broker.Allocation, error) {
	a, err := c.Records.Allocation(ctx, r.State.AllocationID)
	return a, failed(taskstage.Records(err))
}
