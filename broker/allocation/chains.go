package allocation

import (
	"cmp"
	"context"
	"errors"
	"slices"
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

// codeSilent is the failure of a node that does not fetch its tasks.
const codeSilent = "agent_silent"

// unmet is the class of the failures here: the code says what happened.
const unmet = chain.Class(broker.AllocationUnmet)

const (
	// soon is how often a task or a turnover is looked at.
	soon = 2 * time.Second
	// forPlace is how often a turnover that could not begin is tried again.
	forPlace = 10 * time.Second
	// forContact is how often a node that is offline is looked at before its allocation becomes active.
	forContact = 30 * time.Second
	// afterOutage is when unreadable records are read again.
	afterOutage = 10 * time.Second
	// silence is how long a node may take to fetch the tasks of a stage.
	silence = 5 * time.Minute
)

// cancelling is how long a node may take to end an operation that was cancelled, and to say so: an agent kills the step that
// runs and reports within seconds, once it is in contact.
const cancelling = silence

// form is the form of the state of both lists. Form 1 has the nodes on which the end of an operation is unknown.
const form = 1

// Provision is the list that gives an allocation's nodes to its tenant. Each stage goes by the
// allocation's status, which outlives a lost save: give_nodes_back works only after a failure.
func (c *Chains) Provision() chain.Chain[Work] {
	return chain.Chain[Work]{Kind: broker.ProvisionKind, Form: form, Stages: []stage{
		{
			Name: "install_image", Do: c.in(unprovisioned, c.installImage), Undo: c.cancelProvision, Retry: again,
			About: about("each node without the image that was asked for: a reimage", "all that is on these nodes", time.Minute),
			Rescue: []stage{{
				Name: "fail_without_image", Do: c.in(unprovisioned, c.failWithoutImage), Retry: again, Then: "install_image",
			}},
		},
		{
			Name: "provision_users", Do: c.in(unprovisioned, c.provisionUsers), Undo: c.cancelProvision, Retry: unlessSilent,
			Limit: taskLimit("allocation.provision_user", "allocation.check_login"),
			About: about("each node: the tenant's account, with its SSH keys, and the proof that they let in", "", time.Minute),
			Rescue: []stage{{
				Name: "fail_allocation", Do: c.in(unprovisioned, c.failAllocation), Retry: again, Then: "provision_users",
			}},
		},
		{
			Name: "run_begin", Do: c.in(provisioning, c.runBegin), Undo: c.cancelProvision,
			About: about("each node: the operation that the SKU or the project names, if one does", "", time.Minute),
			Rescue: []stage{{
				Name: "fail_begin", Do: c.in(provisioning, c.failBegin), Retry: again, Then: "run_begin",
			}},
		},
		{
			Name: "activate", Do: c.in(provisioning, c.activate), Retry: again,
			About: about("the broker: the allocation is active", "", time.Second),
		},
		{
			Name: "give_nodes_back", Do: c.in(unmade, c.giveBack), Retry: again,
			About: about("nothing; after a failure, a turnover of each node that may have the account", "", time.Second),
		},
	}}
}

// Release is the list that takes an allocation's nodes back.
func (c *Chains) Release() chain.Chain[Work] {
	stages := c.releaseStages()
	// Runs that began before others' operations were ended first go on without that stage.
	return chain.Chain[Work]{Kind: broker.ReleaseKind, Form: form, Stages: stages, Former: [][]stage{stages[1:]}}
}

func (c *Chains) releaseStages() []stage {
	return []stage{
		{
			Name: "end_others", Do: c.in(releasing, c.endOthers), Undo: c.in(releasing, c.cancelRelease), Retry: again, Optional: true,
			About: about("each node: the operations of people on it are cancelled", "", time.Second),
		},
		{
			// It is told and recorded when the operation fails. The next stage judges what that means.
			Name: "run_end", Do: c.in(releasing, c.runEnd), Undo: c.in(releasing, c.cancelRelease), Optional: true,
			About: about("each node: the operation that the SKU or the project names, if one does", "", time.Minute),
		},
		{
			Name: "settle_end", Do: c.in(releasing, c.settleEnd), Undo: c.in(releasing, c.cancelRelease), Retry: again,
			About:  about("the broker: the operation of the end runs on no node any more, and ended well if the SKU names it", "", time.Second),
			Rescue: []stage{{Name: "keep_accounts", Do: c.in(releasing, c.keepAccounts), Retry: again, Then: "settle_end"}},
		},
		{
			// A node on which the account cannot be ended here is left to its turnover.
			Name: "end_users", Do: c.in(releasing, c.endUsers), Undo: c.in(releasing, c.cancelRelease), Retry: unlessSilent,
			Limit: taskLimit("allocation.revoke_user"), Optional: true,
			About: about("each node: the tenant's account ends", "the tenant's processes and home directory", time.Minute),
		},
		{
			Name: "turn_over", Do: c.in(releasing, c.turnOver), Retry: again,
			About:  about("each node: a turnover", "all that the tenant left on the nodes", 10*time.Minute),
			Rescue: []stage{{Name: "give_release_up", Do: c.in(releasing, c.giveUp), Retry: again, Then: "turn_over"}},
		},
	}
}

// The statuses in which the stages have work to do.
var (
	unprovisioned = []broker.AllocationStatus{broker.AllocationRequested, broker.AllocationProvisioning}
	provisioning  = []broker.AllocationStatus{broker.AllocationProvisioning}
	unmade        = []broker.AllocationStatus{broker.AllocationFailed}
	releasing     = []broker.AllocationStatus{broker.AllocationReleasing}
)

// in makes a stage of work that is done only while the allocation has one of the statuses.
func (c *Chains) in(
	statuses []broker.AllocationStatus, do func(context.Context, *run, broker.Allocation) error,
) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		a, err := c.Records.Allocation(ctx, r.State.AllocationID)
		if err != nil {
			return failed(err)
		}
		if !slices.Contains(statuses, a.Status) {
			r.AlreadyDone(nil, "allocation %s is %s", a.ID, a.Status)
			return nil
		}
		return do(ctx, r, a)
	}
}

func again(Work) chain.Retry { return chain.Retry{Attempts: 3, First: 10 * time.Second} }

// unlessSilent is again for a stage of tasks. A silence is waited for once: the next attempt would wait for another one.
func unlessSilent(w Work) chain.Retry {
	if slices.ContainsFunc(w.Faults, func(f broker.ProvisionFault) bool { return f.Code == codeSilent }) {
		return chain.Retry{Attempts: 1}
	}
	return again(w)
}

// taskLimit is how long a stage may take that has each node do these types of task, one after the other: one silence in
// all, and as long as each task may take.
func taskLimit(taskTypes ...string) func(Work) chain.Limit {
	return func(Work) chain.Limit {
		after := silence
		for _, name := range taskTypes {
			if t, err := taskcatalog.Latest(name); err == nil {
				after += t.Deadline
			}
		}
		return chain.Limit{After: after, Class: unmet, Code: codeSilent}
	}
}

func about(touches, destructive string, d time.Duration) func(Work) chain.About {
	return func(Work) chain.About {
		return chain.About{Touches: touches, Destructive: destructive, Expected: d}
	}
}

// failed makes a failure of this package's class of any error: its code and message stay. A stage
// waits out an outage of the broker's records.
func failed(err error) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*chain.Failure](err); ok {
		own := *f
		own.Class, own.Code, own.Message = unmet, codeOf(f), err.Error()
		return &own
	}
	e := broker.AsError(err)
	if e.Kind == broker.Unavailable {
		return chain.AgainFor(unmet, afterOutage, "%v", err)
	}
	return chain.Fail(unmet, "%w", err).With(cmp.Or(e.Code, string(chain.UpstreamTransient)), nil)
}

func codeOf(f *chain.Failure) string { return cmp.Or(f.Code, string(f.Class)) }

func isFailure(err error) bool {
	_, is := errors.AsType[*chain.Failure](err)
	return is
}

// task has a node do a task of a type, once an attempt. The error says that the task was refused, has
// not ended, or ended failed.
func (c *Chains) task(ctx context.Context, r *run, nodeID, taskType string, params any) (broker.Task, error) {
	k, err := c.Records.Request(ctx, taskstage.Task{
		Key: r.Key() + "/" + nodeID + "/" + taskType, NodeID: nodeID, RunID: r.ID, Type: taskType, Params: params,
	})
	if err != nil {
		return broker.Task{}, failed(err)
	}
	if k.Status == broker.TaskQueued {
		switch waited, err := r.Since(ctx, k.IssuedAt); {
		case err != nil:
			return broker.Task{}, failed(err)
		case waited >= silence:
			return k, chain.Fail(unmet, "node %s has not fetched task %s (%s) for %v", nodeID, k.ID, k.Type, silence).With(codeSilent,
				taskstage.Details(k))
		}
	}
	if !k.Status.Ended() {
		return k, chain.Again(soon, "task %s (%s) of node %s is %s", k.ID, k.Type, nodeID, k.Status)
	}
	return k, failed(taskstage.Judge(k, unmet))
}

// holders are the live runs that have the nodes. Read before the certificates: a run that has ended
// by then has issued its certificate.
func (c *Chains) holders(ctx context.Context, r *run) (map[string]*chain.Record, error) {
	out := map[string]*chain.Record{}
	for _, id := range r.State.NodeIDs {
		holder, err := c.Records.Holder(ctx, id)
		if err != nil {
			return nil, failed(err)
		}
		out[id] = holder
	}
	return out, nil
}

// reach moves the run's allocation to a status.
func (c *Chains) reach(ctx context.Context, r *run, change Change) error {
	change.RunID = r.ID
	return failed(c.Records.Reach(ctx, r.State.AllocationID, change))
}

// keepFailure notes why the run gives up. At a retry of the rescue, the run's failure is the rescue's.
func (s *Work) keepFailure(r *run) {
	if r.Spent == 0 {
		s.FailureCode, s.FailureMessage = codeOf(r.Failure), r.Failure.Message
	}
}
