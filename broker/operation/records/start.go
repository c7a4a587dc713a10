package records

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/operation"
	"github.com/hostler/hostler/broker/operation/definition"
	"github.com/hostler/hostler/broker/operation/plan"
	"github.com/hostler/hostler/taskcatalog"
)

// Order is an operation that somebody asks for.
type Order struct {
	Definition  *definition.Definition
	Inputs      json.RawMessage
	Project     broker.Project    // zero: an operation of the platform
	Allocation  broker.Allocation // of a project's operation
	Group       *Group            // instead of the allocation or the node; of a project: allocations, of the platform: nodes
	Node        broker.Node       // of an operation of the platform
	Batches     broker.OperationBatches
	RequestedBy string
	Role        string
	Reason      string
	Key         string // idempotency key
	// Trigger says that an allocation itself begins the operation; empty: a person does.
	Trigger broker.OperationTrigger
	// TraceParent is the trace context of the request; empty: no request asks, and the operation begins a trace.
	TraceParent broker.TraceParent

	// Passed, if set, is told of each node of a group that is passed over.
	Passed func(Passed)

	members []broker.Allocation // of the group of a project
	nodes   []broker.Node       // of the group of the platform
}

// New checks an order and makes its operation, which nothing has stored yet. Codes: those of plan.Make,
// operation.Fit, the policy and members, operation_target_kind, operation_too_large.
func (r *Records) New(ctx context.Context, w Order) (o broker.Operation, err error) {
	if r.Trace != nil {
		planning, end := r.Trace(ctx)
		w.TraceParent = cmp.Or(w.TraceParent, planning)
		defer func() { end(o, err) }()
	}
	return r.ordered(ctx, w)
}

func (r *Records) ordered(ctx context.Context, w Order) (broker.Operation, error) {
	d := w.Definition
	o := broker.Operation{
		ID: broker.NewTenantID(broker.OperationPrefix, r.DB.Now()), Operation: d.ID(), DefinitionDigest: d.Digest(),
		OrganisationID: w.Project.OrganisationID, ProjectID: w.Project.ID, RequestedBy: w.RequestedBy, Reason: w.Reason,
		Safety: d.Safety, Requires: d.Requires, IdempotencyKey: w.Key, Batches: w.Batches, TraceParent: w.TraceParent,
		Target: broker.TargetNode, TargetID: w.Node.ID, Site: w.Node.Site, NodeIDs: []string{w.Node.ID}, Trigger: broker.TriggerAdmin,
	}
	if a := w.Allocation; a.ID != "" {
		o.Target, o.TargetID, o.AllocationID, o.Site, o.NodeIDs = broker.TargetAllocation, a.ID, a.ID, a.Site, a.NodeIDs
	}
	if w.Group != nil && w.Project.ID == "" {
		var err error
		if w.nodes, err = r.groupNodes(ctx, &o, w); err != nil {
			return o, err
		}
	} else if w.Group != nil {
		var err error
		if w.members, err = r.members(ctx, w.Project, *w.Group); err != nil {
			return o, err
		}
		o.Target, o.TargetID, o.Site, o.NodeIDs = broker.TargetGroup, w.Group.Selector.String(), w.members[0].Site, nil
		for _, a := range w.members {
			o.NodeIDs = append(o.NodeIDs, a.NodeIDs...)
			o.Members = append(o.Members, broker.OperationMember{AllocationID: a.ID, Nodes: len(a.NodeIDs)})
		}
	}
	if broker.Role(w.Role).OfTenants() { // the platform may begin an operation on a project's allocation, too
		o.Trigger = broker.TriggerTenant
	}
	if w.Trigger.Bound() {
		o.Trigger, o.ID = w.Trigger, broker.BoundOperationID(w.Allocation.ID, w.Trigger)
	}
	o.CorrelationID = o.ID
	if len(o.NodeIDs) > broker.MostOperationNodes {
		return o, broker.Errorf(broker.Refused, "operation_too_large", "cannot carry out %s on %d nodes: an operation has %d at most", d.ID(),
			len(o.NodeIDs), broker.MostOperationNodes)
	}
	err := takes(d, o.Target)
	if err != nil {
		return o, err
	}
	if o.MostRunning, err = r.planned(ctx, d, &o, w); err != nil {
		return o, err
	}
	lost, err := r.Check(ctx, o, o.NodeIDs, true)
	if err == nil && o.NodeGroup() {
		return o, r.passOver(ctx, &o, w, lost)
	}
	if err == nil && len(lost) > 0 {
		err = broker.Errorf(broker.Refused, broker.OperationTargetGone, "cannot carry out %s: allocation %s is not active, or not the project's (hostler allocation list)",
			d.ID(), slices.Sorted(maps.Keys(lost))[0])
	}
	return o, err
}

// takes refuses a kind of target that a definition does not have. Code: operation_target_kind.
func takes(d *definition.Definition, kind broker.OperationTarget) error {
	if slices.Contains(d.Targets, string(kind)) {
		return nil
	}
	return broker.Errorf(broker.Refused, "operation_target_kind", "cannot carry out %s on a target of kind %s (its kinds: %s)", d.ID(), kind,
		strings.Join(d.Targets, ", "))
}

// Start is the start of a new operation's run. The operation is stored with it.
func Start(o broker.Operation, role string) chain.Start {
	return start(o, 1, chain.Start{
		RequestedBy: o.RequestedBy, Role: role, Reason: o.Reason, Effects: []any{broker.RequestOperation{Operation: o}},
	})
}

// Cancel asks for the end of an operation. One that has ended stays as it is. The tasks are withdrawn at once: the
// operation's run does that, too, and may be held by a freeze of its site, or be gone. Those of an operation that is cancelled
// already are withdrawn, too: the cancel before may have been cut off between the two.
func (r *Records) Cancel(ctx context.Context, by broker.Actor, id, reason string) (broker.Operation, error) {
	o, ended, err := r.DB.CancelOperation(ctx, by, id, reason)
	if ended && r.Ended != nil {
		r.Ended(ctx, o)
	}
	if err != nil || o.Status.Ended() && o.Status != broker.OperationCanceled {
		return o, err
	}
	for _, node := range o.NodeIDs {
		if _, err := r.Withdraw(ctx, node, o.RunID, "operation "+o.ID+" was cancelled"); err != nil {
			return o, err
		}
	}
	return o, nil
}

// Retry is the start of the next attempt of an operation. Codes: transition_refused, operation_attempts, and
// those of Definition, of operation.Fit, of the policy and of the signatures, which are judged anew where those of the
// plan do not hold any more.
func (r *Records) Retry(ctx context.Context, o broker.Operation, by chain.Actor, reason string) (chain.Start, error) {
	if err := broker.TransitionOperation(o, broker.OperationQueued, broker.OperationRequester); err != nil {
		return chain.Start{}, err
	}
	d, _, err := r.Definition(ctx, o.Operation) // it may be retired since
	if err != nil {
		return chain.Start{}, err
	}
	e, lost, err := r.permitted(ctx, o, o.NodeIDs, true)
	if err == nil && len(lost) > 0 && len(lost) == len(o.Members) {
		err = broker.Errorf(broker.Refused, broker.OperationTargetGone, "cannot retry operation %s: none of its group's members is there for it any more", o.ID)
	}
	if err != nil {
		return chain.Start{}, err
	}
	var signatures []taskcatalog.ArtifactSignature
	if r.signed(ctx, e, o) != nil {
		if signatures, err = r.signatures(ctx, e, o); err == nil {
			_, err = plan.WithSignatures(d, o.Plan, signatures)
		}
		if err != nil {
			return chain.Start{}, err
		}
	}
	gone := slices.Sorted(maps.Keys(lost))
	return start(o, o.Attempt+1, chain.Start{
		RequestedBy: by.Name, Role: by.Role, Reason: reason,
		Effects: []any{broker.RetryOperation{
			ID: o.ID, Operation: o.Operation, RunID: runID(o.ID, o.Attempt+1), By: by.Name, Reason: reason,
			MostRunning: valueOr0(e.Overlay.MaxConcurrency), Signatures: signatures, Lost: gone,
		}},
	}, gone...), nil
}

// start completes a start. No two runs have one operation or one node: a run on a node that no allocation holds keeps the
// node from being handed out, and a run on an allocation leaves the node to its release. A run on a group of nodes takes
// each when its batch begins. The nodes of lost members of a group are not locked: they may be somebody else's.
func start(o broker.Operation, attempt int, s chain.Start, lost ...string) chain.Start {
	s.ID, s.Kind, s.Site, s.Subject = runID(o.ID, attempt), broker.OperationKind, cmp.Or(o.Site, broker.NoSite), "operation/"+o.ID
	s.CorrelationID = o.CorrelationID
	s.State = operation.Work{OperationID: o.ID, Attempt: attempt, NodeIDs: o.NodeIDs}
	s.Locks = []string{"operation/" + o.ID}
	for _, part := range o.Parts() {
		if o.NodeGroup() || slices.Contains(lost, part.Member()) {
			continue
		}
		for _, id := range part.NodeIDs {
			s.Locks = append(s.Locks, "operation/"+id)
			if o.Target == broker.TargetNode {
				s.Locks = append(s.Locks, "node/"+id)
			}
		}
	}
	return s
}

func runID(operationID string, attempt int) string { return fmt.Sprintf("%s-%d", operationID, attempt) }
