package records

import (
	"context"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operation/definition"
	"github.com/hostler/hostler/broker/operation/plan"
)

// policyOf is what all levels say of an operation.
func (r *Records) policyOf(ctx context.Context, o broker.Operation) (broker.EffectiveOperationPolicy, error) {
	name, _, _ := strings.Cut(o.Operation, "@")
	return r.DB.EffectiveOperationPolicy(ctx, broker.Place{OrganisationID: o.OrganisationID, ProjectID: o.ProjectID}, name)
}

// planned makes the plan of an operation within the policy. What the policy denies is refused with the level
// that denies it; deadline and size are narrowed.
func (r *Records) planned(ctx context.Context, d *definition.Definition, o *broker.Operation, w Order) (most int64, err error) {
	e, err := r.policyOf(ctx, *o)
	if err != nil {
		return 0, err
	}
	ask := plan.Request{OperationID: o.ID, Attempt: 1, ProjectID: o.ProjectID, AllocationID: o.AllocationID, Inputs: w.Inputs}
	ask.Limits = plan.Limits{
		DeadlineSeconds: int(valueOr0(e.Overlay.TimeoutSeconds)), MaxArtifactBytes: valueOr0(e.Overlay.MaxArtifactSizeBytes),
		RequireSignature: e.RequiresSignature(),
	}
	if o.Plan, err = plan.Make(d, ask); err != nil {
		return 0, err
	}
	if err := permits(e, *o); err != nil {
		return 0, err
	}
	ask.Limits.Sources = e.Overlay.AllowedArtifactSources
	o.Plan, err = plan.Make(d, ask)
	return valueOr0(e.Overlay.MaxConcurrency), err
}

// permits holds an operation with its plan against the policy. How many may run is the store's to count.
func permits(e broker.EffectiveOperationPolicy, o broker.Operation) error {
	ask := broker.OperationAsk{
		TargetKind: string(o.Target), Sources: plan.Sources(o.Plan), Timeout: time.Duration(o.Plan.DeadlineSeconds) * time.Second,
	}
	if o.Plan.Artifacts != nil {
		ask.MaxArtifactBytes = o.Plan.Artifacts.MaxBytes
	}
	return e.Permit(ask)
}

func valueOr0(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
