package records

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operation/condition"
	"github.com/hostler/hostler/broker/operation/definition"
	"github.com/hostler/hostler/broker/operation/plan"
)

const (
	// mostBoundInputs bounds the inputs of a bound operation in bytes.
	mostBoundInputs = 8 << 10
	// longestEnd is the longest deadline of an operation that runs when an allocation ends: nobody pays for the
	// nodes meanwhile, and nobody else gets them. A project, whose users are still logged in then, names a short one.
	longestEnd        = 3600
	longestProjectEnd = 900
)

// CheckBinding refuses an operation that cannot run by itself on the allocations of a place, or of a SKU. later names what
// is judged only when an allocation begins or ends: the conditions that ask for what is not known before, and the policy
// engine. Codes: those of Definition, of plan.Make and of the policy, operation_definition_deprecated, operation_target_kind,
// operation_not_bindable, operation_inputs.
func (r *Records) CheckBinding(
	ctx context.Context, at broker.Place, sku string, t broker.OperationTrigger, b broker.BoundOperation,
) (later []string, err error) {
	d, err := r.bindable(ctx, at, t, b)
	if err != nil {
		return nil, err
	}
	e, err := r.policyOf(ctx, broker.Operation{Operation: d.ID(), OrganisationID: at.OrganisationID, ProjectID: at.ProjectID})
	if err != nil {
		return nil, err
	}
	p, err := plan.Make(d, plan.Request{OperationID: broker.BoundOperationID("any", t), Attempt: 1, Inputs: b.Inputs, Limits: limitsOf(e)})
	if err != nil {
		return nil, err
	}
	o := broker.Operation{Operation: d.ID(), Target: broker.TargetAllocation, Trigger: t, Plan: p}
	facts, open := factsOf(o, subject{backend: d.Backend, allocation: broker.Allocation{SKU: sku}}, r.DB.Now()), openFacts
	if sku == "" {
		open = append([]string{"sku"}, open...)
	}
	ask := askOf(o)
	ask.Holds = func(c broker.OperationCondition) (bool, error) {
		yes, known, err := condition.Foresee(c, facts, open)
		return yes || !known, err
	}
	if err := e.Permit(ask); err != nil {
		return nil, err
	}
	for _, c := range e.Conditions() {
		if _, known, _ := condition.Foresee(c.OperationCondition, facts, open); !known {
			later = append(later, "condition "+c.Name+" of "+c.Rule.String())
		}
	}
	if r.Engine != nil {
		later = append(later, "what the policy engine says of "+d.ID())
	}
	return later, nil
}

// openFacts are the facts that nobody knows before there is an allocation.
var openFacts = []string{"node_count", "site", "labels", "hour", "minute"}

// bindable refuses a definition whose operations cannot run by themselves on allocations.
func (r *Records) bindable(
	ctx context.Context, at broker.Place, t broker.OperationTrigger, b broker.BoundOperation,
) (*definition.Definition, error) {
	d, warning, err := r.Definition(ctx, b.Operation)
	if err != nil {
		return nil, err
	}
	if err := takes(d, broker.TargetAllocation); err != nil {
		return nil, err
	}
	longest := longestEnd
	if at.ProjectID != "" {
		longest = longestProjectEnd
	}
	no := func(code, format string, args ...any) (*definition.Definition, error) {
		return nil, broker.Errorf(broker.Refused, code, "cannot bind "+d.ID()+": "+format, args...)
	}
	switch {
	case warning != "":
		return no("operation_definition_deprecated", "its definition is deprecated (bind a newer version)")
	case d.Safety != definition.SafetyForced:
		return no("operation_not_bindable", "its safety is %s, and the nodes of an allocation are in service and in use", d.Safety)
	case t == broker.TriggerEnd && d.DeadlineSeconds > longest:
		return no("operation_not_bindable", "its deadline is %d seconds, and an operation at the end of an allocation has at most %d",
			d.DeadlineSeconds, longest)
	case len(b.Inputs) > mostBoundInputs:
		return no("operation_inputs", "its inputs have %d bytes (at most %d)", len(b.Inputs), mostBoundInputs)
	}
	return d, nil
}
