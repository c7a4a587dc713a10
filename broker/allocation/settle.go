package allocation

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

// Left is what is known of an allocation's operation on the nodes of the allocation.
type Left struct {
	Operation *broker.Operation // nil: none has begun
	// Required: the SKU names the operation, and what follows needs its success.
	Required bool
	// Failed are the nodes that have not done their part. Silent are those that never fetched their task and
	// are offline now, and Running those on which it may still run.
	Failed, Silent, Running []string
}

// endOthers cancels the operations that people began on the nodes, and waits until each is known to have ended: the one of
// the end begins afterwards. A node that does not say so within the time that a cancel may take is reimaged.
func (c *Chains) endOthers(ctx context.Context, r *run, a broker.Allocation) error {
	running, err := c.Records.EndOthers(ctx, a)
	if err != nil {
		return failed(err)
	}
	nodes := slices.Sorted(maps.Keys(running))
	if len(nodes) == 0 {
		r.Note(nil, "no operation of people runs on the nodes")
		return nil
	}
	switch waited, err := r.Since(ctx, r.EnteredAt); {
	case err != nil:
		return failed(err)
	case waited < cancelling:
		return chain.Again(soon, "operation %s may still run on %s, and was cancelled; after %s the node is reimaged", running[nodes[0]],
			strings.Join(nodes, ", "), cancelling)
	}
	r.Note(map[string]any{"node_ids": nodes}, "the end of cancelled operations on %s is unknown after %s: the node is reimaged, which ends them in any case",
		strings.Join(nodes, ", "), cancelling)
	return nil
}

// settled asks an operation of the allocation to end, and waits until it runs on no node any more: as long as a silent
// node is waited for. A node on which it may still run then cannot be cleaned in place, so it is reimaged. So is a silent
// node on which the operation is required.
func (c *Chains) settled(ctx context.Context, r *run, a broker.Allocation, t broker.OperationTrigger) (Left, error) {
	if err := c.giveUpBound(ctx, a, t); err != nil {
		return Left{}, err
	}
	left, err := c.Records.Left(ctx, a, t)
	if err != nil {
		return left, failed(err)
	}
	proven, err := c.Records.Proven(ctx, a)
	if err != nil {
		return left, failed(err)
	}
	for _, nodes := range []*[]string{&left.Failed, &left.Silent, &left.Running} {
		*nodes = slices.DeleteFunc(slices.Clone(*nodes), func(id string) bool { return proven[id] != "" })
	}
	if len(left.Running) > 0 {
		waited, err := r.Since(ctx, r.EnteredAt)
		switch {
		case err != nil:
			return left, failed(err)
		case waited < silence:
			return left, chain.Again(soon, "operation %s may still run on %s, and was asked to stop; after %s the node is reimaged", left.Operation.ID,
				strings.Join(left.Running, ", "), silence)
		}
	}
	r.State.Unended = left.Running
	if left.Required {
		r.State.Unended = slices.Concat(left.Running, left.Silent)
	}
	if t == broker.TriggerEnd {
		others, err := c.Records.EndOthers(ctx, a)
		if err != nil {
			return left, failed(err)
		}
		for _, id := range slices.Sorted(maps.Keys(others)) {
			if proven[id] == "" && !slices.Contains(r.State.Unended, id) {
				r.State.Unended = append(slices.Clip(r.State.Unended), id)
			}
		}
	}
	return left, nil
}

// settleEnd holds the order of a release: what the SKU names for the end ends well before the account ends. A person lets
// the release go on without it by force, and so does the site's policy after a time. A node that is reimaged needs neither.
// The operation that a project names is its own matter: it keeps no node from the platform.
func (c *Chains) settleEnd(ctx context.Context, r *run, a broker.Allocation) error {
	kept, err := c.kept(ctx, r, a)
	if err != nil {
		return err
	}
	left, err := c.settled(ctx, r, a, broker.TriggerEnd)
	if err != nil {
		return err
	}
	unended := slices.DeleteFunc(left.Failed, func(id string) bool {
		return !slices.Contains(kept, id) || slices.Contains(r.State.Unended, id)
	})
	switch {
	case left.Required && len(unended) > 0 && !a.Forced && a.PassedAt.IsZero():
		what := "it could not begin"
		if o := left.Operation; o != nil {
			what = "operation " + o.ID + " (" + o.Operation + ") is " + string(o.Status) + " " + o.Code
		}
		return chain.Fail(unmet, "what the SKU names for the end of an allocation must end well before the accounts end, and on %s it did not: %s "+
			"(repair it and release allocation %s again, which tries it again; hostler allocation force-release goes on without it)",
			strings.Join(unended, ", "), what, a.ID).With(CodeEndOperation, map[string]any{"node_ids": unended})
	case left.Required && len(unended) > 0 && !a.Forced:
		r.Note(map[string]any{"node_ids": unended}, "the operation of the end did not end well on %s, and was passed over by policy (end_operation_pass_after): "+
			"each node of the allocation is reimaged where MAAS has its machine", strings.Join(unended, ", "))
	case len(r.State.Unended) > 0:
		r.Note(map[string]any{"node_ids": r.State.Unended}, "the end of an operation on %s is unknown after %s: the node is reimaged, which ends it in any case",
			strings.Join(r.State.Unended, ", "), silence)
	case left.Operation == nil:
		r.AlreadyDone(nil, "no operation of the end has begun")
	default:
		r.Note(nil, "operation %s runs on no node", left.Operation.ID)
	}
	return nil
}

// keepAccounts leaves the release to a person before an account has ended.
func (c *Chains) keepAccounts(ctx context.Context, r *run, _ broker.Allocation) error {
	r.State.keepFailure(r)
	return c.failRelease(ctx, r, CodeEndOperation, r.State.FailureCode+": "+r.State.FailureMessage)
}

// unended is why a node is reimaged; empty: it need not be.
func (s *Work) unended(nodeID string, a broker.Allocation) string {
	if !slices.Contains(s.Unended, nodeID) {
		return ""
	}
	return "the end of an operation of allocation " + a.ID + " on it is unknown"
}
