package records

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operation/definition"
	"github.com/hostler/hostler/broker/operation/plan"
)

// policyOf is what all levels say of an operation.
func (r *Records) policyOf(ctx context.Context, o broker.Operation) (broker.EffectiveOperationPolicy, error) {
	name, _, _ := strings.Cut(o.Operation, "@")
	at, err := r.levelsOf(ctx, o)
	if err != nil {
		return broker.EffectiveOperationPolicy{}, err
	}
	return r.DB.EffectiveOperationPolicy(ctx, at, name)
}

// levelsOf is the place whose levels judge an operation. What the SKU of an allocation names is the platform's, so the
// platform's level alone judges it: no organisation or project takes it away.
func (r *Records) levelsOf(ctx context.Context, o broker.Operation) (broker.Place, error) {
	at := broker.Place{OrganisationID: o.OrganisationID, ProjectID: o.ProjectID}
	if !o.Trigger.Bound() {
		return at, nil
	}
	a, err := r.DB.Allocation(ctx, o.AllocationID)
	if err != nil {
		return at, err
	}
	sku, err := r.DB.SKU(ctx, a.SKU)
	if err != nil {
		return at, err
	}
	if b := sku.Bindings.Of(o.Trigger); b != nil && b.Operation == o.Operation {
		return broker.Place{}, nil
	}
	return at, nil
}

// planned makes the plan of an operation within the policy. What the policy denies is refused with the level
// that denies it; deadline and size are narrowed.
func (r *Records) planned(ctx context.Context, d *definition.Definition, o *broker.Operation, w Order) (most int64, err error) {
	e, err := r.policyOf(ctx, *o)
	if err != nil {
		return 0, err
	}
	ask := plan.Request{
		OperationID: o.ID, Attempt: 1, ProjectID: o.ProjectID, AllocationID: o.AllocationID, Inputs: w.Inputs, Limits: limitsOf(e),
	}
	on := []subject{{begins: true, backend: d.Backend, allocation: w.Allocation, node: w.Node}}
	for i, a := range w.members {
		on = append(on[:i], subject{begins: true, backend: d.Backend, allocation: a})
	}
	for i, n := range w.nodes {
		on = append(on[:i], subject{begins: true, backend: d.Backend, node: n})
	}
	if ask.GPUs, err = r.gpusOf(ctx, cmp.Or(on[0].allocation.SKU, on[0].node.SKU)); err != nil {
		return 0, err
	}
	if o.Plan, err = plan.Make(d, ask); err != nil {
		return 0, err
	}
	if err := r.permits(ctx, e, *o, on); err != nil {
		return 0, err
	}
	ask.Limits.Sources = e.Overlay.AllowedArtifactSources
	if o.Plan, err = plan.Make(d, ask); err != nil {
		return 0, err
	}
	signatures, err := r.signatures(ctx, e, *o)
	if err == nil && len(signatures) > 0 {
		o.Plan, err = plan.WithSignatures(d, o.Plan, signatures)
	}
	return valueOr0(e.Overlay.MaxConcurrency), err
}

// gpusOf is how many GPUs a SKU has; 0: there is no SKU, or it has none.
func (r *Records) gpusOf(ctx context.Context, sku string) (int, error) {
	if sku == "" {
		return 0, nil
	}
	s, err := r.DB.SKU(ctx, sku)
	if broker.AsError(err).Kind == broker.NotFound {
		return 0, nil
	}
	return s.GPUCount, err
}

// limitsOf are the limits of a plan, but for its sources: what the policy denies is to be named with its level.
func limitsOf(e broker.EffectiveOperationPolicy) plan.Limits {
	return plan.Limits{
		DeadlineSeconds: int(valueOr0(e.Overlay.TimeoutSeconds)), MaxArtifactBytes: valueOr0(e.Overlay.MaxArtifactSizeBytes),
		SignaturesBy: signaturesBy(e),
	}
}

// askOf is what the policy is asked about an operation with its plan.
func askOf(o broker.Operation) broker.OperationAsk {
	ask := broker.OperationAsk{
		TargetKind: string(o.Target), Sources: plan.Sources(o.Plan), Timeout: time.Duration(o.Plan.DeadlineSeconds) * time.Second,
	}
	if o.Plan.Artifacts != nil {
		ask.MaxArtifactBytes = o.Plan.Artifacts.MaxBytes
	}
	return ask
}

// subject is what an operation works with, as the records have it now.
type subject struct {
	begins     bool // nodes are about to get a task
	backend    string
	allocation broker.Allocation // of an allocation's operation, or a member of a group
	node       broker.Node       // of a node's operation, or a member of the platform's group
}

// permits holds an operation with its plan against the policy, and asks the policy engine about what the policy
// permits. It is called before a transaction. How many may run is the store's to count.
func (r *Records) permits(ctx context.Context, e broker.EffectiveOperationPolicy, o broker.Operation, on []subject) error {
	var judged []map[string]string // members of a group differ in their labels alone
	for _, s := range on {
		facts := factsOf(o, s, r.DB.Now())
		if slices.ContainsFunc(judged, func(labels map[string]string) bool { return maps.Equal(labels, facts.Labels) }) {
			continue
		}
		if err := r.permitsWith(ctx, e, o, s, facts); err != nil {
			return err
		}
		judged = append(judged, facts.Labels)
	}
	return nil
}

func (r *Records) permitsWith(
	ctx context.Context, e broker.EffectiveOperationPolicy, o broker.Operation, on subject, facts broker.OperationFacts,
) error {
	ask := askOf(o)
	ask.Holds = func(c broker.OperationCondition) (bool, error) { return r.judge.Holds(ctx, c, facts) }
	err := e.Permit(ask)
	switch {
	case ctx.Err() != nil: // an interrupted judgement denies nothing
		return ctx.Err()
	case err != nil || !r.asks(on):
		return err
	}
	return r.Engine.Permit(ctx, facts)
}

// asks reports whether the policy engine is asked: tasks that run go on without it.
func (r *Records) asks(on subject) bool { return r.Engine != nil && on.begins }

// factsOf returns what conditions may know of an operation. The labels are those of its target. The time of day
// is that at which the attempt began, unless something begins: a task that runs is not ended because it got late.
func factsOf(o broker.Operation, on subject, now time.Time) broker.OperationFacts {
	name, version, _ := strings.Cut(o.Operation, "@")
	f := broker.OperationFacts{
		Operation: name, Version: version, Backend: on.backend, Trigger: string(o.Trigger), TargetKind: string(o.Target),
		NodeCount: len(o.NodeIDs), Site: o.Site, SKU: on.node.SKU, Labels: on.node.Labels, ArtifactSources: plan.Sources(o.Plan),
	}
	if o.Target != broker.TargetNode && !o.NodeGroup() { // a binding has no allocation yet
		f.SKU, f.Labels = on.allocation.SKU, on.allocation.Labels
	}
	if !on.begins {
		now = o.StartedAt
	}
	return f.At(now)
}

// backendOf reads who carries an operation out.
func (r *Records) backendOf(ctx context.Context, o broker.Operation) (string, error) {
	kept, err := r.DB.OperationDefinition(ctx, o.Operation)
	if err != nil {
		return "", err
	}
	d, err := definitionOf(kept)
	if err != nil {
		return "", err
	}
	return d.Backend, nil
}

func valueOr0(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
