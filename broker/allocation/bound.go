package allocation

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

// runBegin has the operation run that the SKU or the project names for the begin of an allocation.
func (c *Chains) runBegin(ctx context.Context, r *run, a broker.Allocation) error {
	return c.runBound(ctx, r, a, broker.TriggerBegin, Wish{Begin: true})
}

// runEnd has the operation run that the SKU or the project names for the end of an allocation: before the account ends
// on any node, so not beside a turnover. A release that is tried again tries a failed operation again, unless the policy has
// passed it over.
func (c *Chains) runEnd(ctx context.Context, r *run, a broker.Allocation) error {
	kept, err := c.kept(ctx, r, a)
	if err != nil {
		return err
	}
	others, err := c.Records.EndOthers(ctx, a)
	if err != nil {
		return failed(err)
	}
	wish := Wish{}
	if len(others) > 0 { // they have the nodes, and nobody knows for how long
		return c.runBound(ctx, r, a, broker.TriggerEnd, wish)
	}
	if len(kept) == len(r.State.NodeIDs) && a.PassedAt.IsZero() {
		wish = Wish{Begin: true, Again: r.RequestedAt}
	}
	return c.runBound(ctx, r, a, broker.TriggerEnd, wish)
}

// kept returns the nodes on which the account lives and no turnover runs.
func (c *Chains) kept(ctx context.Context, r *run, a broker.Allocation) (ids []string, err error) {
	holders, err := c.holders(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, id := range r.State.NodeIDs {
		account, err := c.Records.Account(ctx, a, id)
		if err != nil {
			return nil, failed(err)
		}
		if h := holders[id]; account == AccountLives && (h == nil || !turnsOver(h)) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// runBound waits for the operation, but not for ever: for its deadline, and for as long as silent nodes are waited for
// before and after. A failure has the operation's own code.
func (c *Chains) runBound(ctx context.Context, r *run, a broker.Allocation, t broker.OperationTrigger, w Wish) error {
	o, waits, err := c.Records.Bound(ctx, a, t, w)
	if err != nil && broker.AsError(err).Code == broker.PolicyEngineUnreachable { // nobody waits for it for ever
		waits, err = err.Error(), nil
	}
	most := silence
	switch {
	case err != nil:
		return failed(err)
	case o == nil && waits == "":
		r.AlreadyDone(nil, "no operation is named, or an account has ended before it could begin")
		return nil
	case o != nil && o.Status == broker.OperationSucceeded:
		r.Note(detailsOf(o), "operation %s (%s) succeeded", o.ID, o.Operation)
		return nil
	case o != nil && o.Status.Ended():
		return chain.Fail(unmet, "operation %s (%s) is %s: %s (hostler operation logs %s)", o.ID, o.Operation, o.Status, o.Message, o.ID).
			With(o.Code, detailsOf(o))
	case o != nil:
		waits = "operation " + o.ID + " is " + string(o.Status)
		most += silence + time.Duration(o.Plan.DeadlineSeconds)*time.Second
	}
	waited, err := r.Since(ctx, r.EnteredAt)
	switch {
	case err != nil:
		return failed(err)
	case waited < most:
		return chain.Again(soon, "%s", waits)
	case o == nil:
		return chain.Fail(unmet, "no operation could begin for %s: %s", most, waits).With(CodeOperationLate, nil)
	}
	if err := c.Records.GiveUp(ctx, o.ID, "it has not ended after "+most.String()); err != nil {
		return failed(err)
	}
	return chain.Fail(unmet, "operation %s (%s) has not ended after %s, and was cancelled", o.ID, o.Operation, most).
		With(CodeOperationLate, detailsOf(o))
}

// giveUpBound asks for the end of the operation of a trigger, if it has not ended, before what follows it begins. The
// stage that waited for the operation may have failed for another reason, such as records that could not be read.
func (c *Chains) giveUpBound(ctx context.Context, a broker.Allocation, t broker.OperationTrigger) error {
	err := c.Records.GiveUp(ctx, broker.BoundOperationID(a.ID, t), "allocation "+a.ID+" goes on without it")
	if broker.AsError(err).Kind == broker.NotFound {
		return nil
	}
	return failed(err)
}

func detailsOf(o *broker.Operation) map[string]any {
	return map[string]any{"operation_id": o.ID, "operation": o.Operation}
}

// failBegin ends an allocation whose first operation did not end well. Its nodes have the tenant's account, so each of
// them is turned over. The operation is no proof against a node: none counts as failing.
func (c *Chains) failBegin(ctx context.Context, r *run, a broker.Allocation) error {
	r.State.keepFailure(r)
	if err := c.giveUpBound(ctx, a, broker.TriggerBegin); err != nil {
		return err
	}
	return c.fail(ctx, r, Change{
		Code: CodeBeginOperation, Reason: r.State.FailureCode + ": " + r.State.FailureMessage, Provisioned: r.State.Ready,
	})
}
