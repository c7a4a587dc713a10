package records

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operation"
	"github.com/hostler/hostler/broker/operation/condition"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/taskstage"
)

// Records is operation.Records over the broker's own parts.
type Records struct {
	DB     *store.DB
	Queue  *taskqueue.Queue
	Signer Signer
	Engine Engine // nil: there is none
	// Trace, if set, is called when an operation is planned. It returns the trace context of the planning, which begins a
	// trace if ctx has none, and what is called at the end.
	Trace func(ctx context.Context) (broker.TraceParent, func(broker.Operation, error))
	// Ended, if set, is called for an operation that ended by a cancel, because it had no run any more that could end it.
	Ended func(ctx context.Context, o broker.Operation)
	// Signatures judges the signatures of artifacts.
	Signatures Signatures

	judge   condition.Judge // of the conditions of policies
	judging judging
}

// Engine is a policy engine beside the policies.
type Engine interface {
	// Permit refuses what the engine does not permit.
	Permit(ctx context.Context, facts broker.OperationFacts) error
}

var _ operation.Records = (*Records)(nil)

// Request implements taskstage.Tasks.
func (r *Records) Request(ctx context.Context, t taskstage.Task) (broker.Task, error) {
	return r.Queue.Request(ctx, t)
}

// Withdraw implements taskstage.Tasks.
func (r *Records) Withdraw(ctx context.Context, nodeID, runID, reason string) ([]broker.Task, error) {
	return r.Queue.Withdraw(ctx, nodeID, runID, reason)
}

// Operation implements operation.Records.
func (r *Records) Operation(ctx context.Context, id string) (broker.Operation, error) {
	return r.DB.Operation(ctx, id)
}

// Tasks implements operation.Records.
func (r *Records) Tasks(ctx context.Context, nodeID, runID string) ([]broker.Task, error) {
	all, _, err := r.DB.ListTasks(ctx, store.TaskFilter{NodeID: nodeID, CorrelationID: runID, Limit: taskqueue.MaxTasksOfRun})
	all = slices.DeleteFunc(all, func(k broker.Task) bool { return k.Type != operation.TaskType })
	for i, k := range all {
		if all[i], err = r.DB.Task(ctx, k.ID); err != nil {
			return nil, err
		}
	}
	return all, err
}

// Check implements operation.Records. The policy may have become narrower since the plan was made, and a
// signer may be trusted no more.
func (r *Records) Check(ctx context.Context, o broker.Operation, nodes []string, begins bool) (lost map[string]string, err error) {
	e, lost, err := r.permitted(ctx, o, nodes, begins)
	if err != nil {
		return nil, err
	}
	return lost, r.signed(ctx, e, o)
}

// permitted holds an operation against its target and the policy as they are now, and returns the policy. lost
// are the members of a group that are left out, as in Check. The rest is as in Check, too.
func (r *Records) permitted(
	ctx context.Context, o broker.Operation, nodes []string, begins bool,
) (e broker.EffectiveOperationPolicy, lost map[string]string, err error) {
	var on []subject
	lost = map[string]string{}
	for _, part := range o.Parts() {
		if o.NodeGroup() && !slices.Contains(nodes, part.Member()) {
			continue
		}
		s, err := r.fit(ctx, o, part, nodes, begins)
		if code := left(o, err); code != "" {
			lost[part.Member()] = code
			continue
		}
		if err != nil {
			return e, nil, err
		}
		on = append(on, s)
	}
	if len(on) == 0 { // nothing of the group begins any more
		return e, lost, nil
	}
	if e, err = r.policyOf(ctx, o); err != nil {
		return e, nil, err
	}
	backend := ""
	if r.asks(on[0]) || len(e.Conditions()) > 0 {
		if backend, err = r.backendOf(ctx, o); err != nil {
			return e, nil, err
		}
	}
	for i := range on {
		on[i].backend = backend
	}
	return e, lost, r.permits(ctx, e, o, on)
}

// left is the code of a refusal that leaves a member out of its group; empty: it is none.
func left(o broker.Operation, err error) string {
	e := broker.AsError(err)
	switch {
	case err == nil || o.Target != broker.TargetGroup:
		return ""
	case e.Code == broker.OperationTargetGone, o.NodeGroup() && (e.Kind == broker.Refused || e.Kind == broker.NotFound):
		return e.Code
	}
	return ""
}

// fit holds a part of an operation against the records. Codes: those of operation.Fit.
func (r *Records) fit(
	ctx context.Context, o broker.Operation, part broker.OperationPart, nodes []string, begins bool,
) (s subject, err error) {
	s.begins = begins
	if part.AllocationID != "" {
		if s.allocation, err = r.DB.Allocation(ctx, part.AllocationID); err != nil {
			return s, err
		}
	}
	var at []operation.Place
	for _, id := range part.NodeIDs {
		if !slices.Contains(nodes, id) {
			continue
		}
		p, err := r.place(ctx, id)
		if err != nil {
			return s, err
		}
		if at = append(at, p); part.AllocationID == "" {
			s.node = p.Node
		}
	}
	return s, operation.Fit(o, part, s.allocation, at, begins)
}

func (r *Records) place(ctx context.Context, nodeID string) (p operation.Place, err error) {
	if p.Node, err = r.DB.Node(ctx, nodeID); err != nil {
		return p, err
	}
	claim, err := r.DB.NodeClaim(ctx, nodeID)
	if err != nil {
		return p, err
	}
	p.Claim = claim.ID
	if p.Run, _, err = r.DB.RunOfNode(ctx, nodeID); err != nil {
		return p, err
	}
	all, err := r.DB.Occupants(ctx, nodeID)
	for _, o := range all {
		if o.Live() {
			p.Live = append(p.Live, o)
		}
	}
	return p, err
}
