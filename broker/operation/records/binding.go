package records

import (
	"context"

	"github.com/hostler/hostler/broker"
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

// CheckBinding refuses an operation that cannot run by itself on the allocations of a place. When an allocation begins
// or ends, the policy is asked again, with its conditions and the policy engine. Codes: those of Definition, of plan.Make and of the policy,
// operation_definition_deprecated, operation_target_kind, operation_not_bindable, operation_inputs.
func (r *Records) CheckBinding(ctx context.Context, at broker.Place, t broker.OperationTrigger, b broker.BoundOperation) error {
	d, warning, err := r.Definition(ctx, b.Operation)
	if err != nil {
		return err
	}
	if err := takes(d, broker.TargetAllocation); err != nil {
		return err
	}
	longest := longestEnd
	if at.ProjectID != "" {
		longest = longestProjectEnd
	}
	no := func(code, format string, args ...any) error {
		return broker.Errorf(broker.Refused, code, "cannot bind "+d.ID()+": "+format, args...)
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
	e, err := r.policyOf(ctx, broker.Operation{Operation: d.ID(), OrganisationID: at.OrganisationID, ProjectID: at.ProjectID})
	if err != nil {
		return err
	}
	p, err := plan.Make(d, plan.Request{OperationID: broker.BoundOperationID("any", t), Attempt: 1, Inputs: b.Inputs, Limits: limitsOf(e)})
	if err != nil {
		return err
	}
	ask := askOf(broker.Operation{Target: broker.TargetAllocation, Plan: p})
	ask.Holds = func(broker.OperationCondition) (bool, error) { return true, nil } // they are about an allocation
	return e.Permit(ask)
}
