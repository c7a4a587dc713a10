package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/operation/condition"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// OperationInput names an operation.
type OperationInput struct {
	Operation string `path:"operation_type" maxLength:"64" doc:"an operation without its version, or * for all operations"`
}

// OperationPolicyPageInput selects a page of a level's policies.
type OperationPolicyPageInput struct {
	Cursor string `query:"cursor" maxLength:"64"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000"`
}

func (a *API) operationPolicies(ctx context.Context, at broker.Place, in OperationPolicyPageInput) (*api.OperationPolicyList, error) {
	page, next, err := a.c.DB.OperationPolicies(ctx, at, in.Cursor, pageLimit(in.Limit))
	if err != nil {
		return nil, err
	}
	return &api.OperationPolicyList{Items: resources(page, operationPolicyResource), Next: next}, nil
}

func (a *API) operationPolicy(ctx context.Context, at broker.Place, operation string) (*api.OperationPolicy, error) {
	if err := broker.CheckOperation(operation); err != nil {
		return nil, err
	}
	return resource(operationPolicyResource)(a.c.DB.OperationPolicy(ctx, at, operation))
}

// putOperationPolicy sets a level's policy. Whoever is no tenant_admin may narrow the policy of a project, and not
// widen what stands.
func (a *API) putOperationPolicy(
	ctx context.Context, at broker.Place, operation string, put api.OperationPolicyPut,
) (*api.OperationPolicy, error) {
	if err := broker.CheckOperation(operation); err != nil {
		return nil, err
	}
	p := broker.OperationPolicy{Place: at, Operation: operation, Overlay: broker.OperationOverlay(put.Policy)}
	if err := p.Overlay.Check(); err != nil {
		return nil, err
	}
	if err := condition.Check(p.Overlay.Conditions); err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	narrowOnly := !who.Place.OfPlatform() && !who.Role.Covers(tenantAdmin)
	p, err := a.c.DB.SetOperationPolicy(ctx, who.actor(), p, narrowOnly, taskcatalog.Clean(put.Reason, 500))
	if err != nil {
		return nil, err
	}
	out := operationPolicyResource(p)
	out.Warning, err = a.operationWarning(ctx, operation)
	return &out, err
}

// operationWarning is the warning of an operation that nothing can run, whose name may be misspelt. Drafts are the
// platform's alone, so that they count as nothing.
func (a *API) operationWarning(ctx context.Context, operation string) (string, error) {
	if operation == broker.AllOperations {
		return "", nil
	}
	for _, status := range []broker.OperationDefinitionStatus{broker.DefinitionActive, broker.DefinitionDeprecated} {
		found, _, err := a.c.DB.OperationDefinitions(ctx, store.OperationDefinitionFilter{Operation: operation, Status: status, Limit: 1})
		if err != nil || len(found) > 0 {
			return "", err
		}
	}
	return "no definition of " + operation + " is in force yet: check its spelling", nil
}

// removeOperationPolicy returns the policy that is removed.
func (a *API) removeOperationPolicy(ctx context.Context, at broker.Place, subject, operation, reason string) (*api.OperationRule, error) {
	if err := broker.CheckOperation(operation); err != nil {
		return nil, err
	}
	rule := broker.OperationRule{Level: broker.OperationLevelOf(at), Operation: operation}
	reason, err := a.reasonFor(ctx, reason, "operation_policy.remove", subject, "remove "+rule.String())
	if err != nil {
		return nil, err
	}
	if err := a.c.DB.RemoveOperationPolicy(ctx, callerOf(ctx).actor(), at, operation, reason); err != nil {
		return nil, err
	}
	return ruleResource(rule), nil
}

type globalOperationPolicyPutInput struct {
	OperationInput
	Body api.OperationPolicyPut
}

type globalOperationPolicyRemoveInput struct {
	OperationInput
	Reason
}

func (a *API) listGlobalOperationPolicies(
	ctx context.Context, in *OperationPolicyPageInput,
) (*api.PlatformOperationPolicyList, error) {
	l, err := a.operationPolicies(ctx, broker.Place{}, *in)
	if err != nil {
		return nil, err
	}
	return &api.PlatformOperationPolicyList{Items: l.Items, Next: l.Next}, nil
}

func (a *API) showGlobalOperationPolicy(ctx context.Context, in *OperationInput) (*api.OperationPolicy, error) {
	return a.operationPolicy(ctx, broker.Place{}, in.Operation)
}

func (a *API) setGlobalOperationPolicy(ctx context.Context, in *globalOperationPolicyPutInput) (*api.OperationPolicy, error) {
	return a.putOperationPolicy(ctx, broker.Place{}, in.Operation, in.Body)
}

func (a *API) removeGlobalOperationPolicy(ctx context.Context, in *globalOperationPolicyRemoveInput) (*api.OperationRule, error) {
	return a.removeOperationPolicy(ctx, broker.Place{}, "operation/policy", in.Operation, in.Reason.Reason)
}

type organisationOperationPoliciesInput struct {
	OrganisationInput
	OperationPolicyPageInput
}

type organisationOperationPolicyInput struct {
	OrganisationInput
	OperationInput
}

type organisationOperationPolicyPutInput struct {
	OrganisationInput
	OperationInput
	Body api.OperationPolicyPut
}

type organisationOperationPolicyRemoveInput struct {
	OrganisationInput
	OperationInput
	Reason
}

func (a *API) listOrganisationOperationPolicies(
	ctx context.Context, in *organisationOperationPoliciesInput,
) (*api.OperationPolicyList, error) {
	o, err := a.organisation(ctx, in.Organisation)
	if err != nil {
		return nil, err
	}
	return a.operationPolicies(ctx, broker.Place{OrganisationID: o.ID}, in.OperationPolicyPageInput)
}

func (a *API) showOrganisationOperationPolicy(ctx context.Context, in *organisationOperationPolicyInput) (*api.OperationPolicy, error) {
	o, err := a.organisation(ctx, in.Organisation)
	if err != nil {
		return nil, err
	}
	return a.operationPolicy(ctx, broker.Place{OrganisationID: o.ID}, in.Operation)
}

func (a *API) setOrganisationOperationPolicy(ctx context.Context, in *organisationOperationPolicyPutInput) (*api.OperationPolicy, error) {
	o, err := a.organisation(ctx, in.Organisation)
	if err != nil {
		return nil, err
	}
	return a.putOperationPolicy(ctx, broker.Place{OrganisationID: o.ID}, in.Operation, in.Body)
}

func (a *API) removeOrganisationOperationPolicy(
	ctx context.Context, in *organisationOperationPolicyRemoveInput,
) (*api.OperationRule, error) {
	o, err := a.organisation(ctx, in.Organisation)
	if err != nil {
		return nil, err
	}
	return a.removeOperationPolicy(ctx, broker.Place{OrganisationID: o.ID}, "organisation/"+o.ID, in.Operation, in.Reason.Reason)
}

type projectOperationPoliciesInput struct {
	ProjectInput
	OperationPolicyPageInput
}

type projectOperationPolicyInput struct {
	ProjectInput
	OperationInput
}

type projectOperationPolicyPutInput struct {
	ProjectInput
	OperationInput
	Body api.OperationPolicyPut
}

type projectOperationPolicyRemoveInput struct {
	ProjectInput
	OperationInput
	Reason
}

func (a *API) listProjectOperationPolicies(ctx context.Context, in *projectOperationPoliciesInput) (*api.OperationPolicyList, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return a.operationPolicies(ctx, p.Place(), in.OperationPolicyPageInput)
}

func (a *API) showProjectOperationPolicy(ctx context.Context, in *projectOperationPolicyInput) (*api.OperationPolicy, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return a.operationPolicy(ctx, p.Place(), in.Operation)
}

func (a *API) setProjectOperationPolicy(ctx context.Context, in *projectOperationPolicyPutInput) (*api.OperationPolicy, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return a.putOperationPolicy(ctx, p.Place(), in.Operation, in.Body)
}

func (a *API) removeProjectOperationPolicy(ctx context.Context, in *projectOperationPolicyRemoveInput) (*api.OperationRule, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return a.removeOperationPolicy(ctx, p.Place(), "project/"+p.ID, in.Operation, in.Reason.Reason)
}

func (a *API) explainProjectOperationPolicy(ctx context.Context, in *projectOperationPolicyInput) (*api.EffectiveOperationPolicy, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	if err := broker.CheckOperation(in.Operation); err != nil {
		return nil, err
	}
	e, err := a.c.DB.EffectiveOperationPolicy(ctx, p.Place(), in.Operation)
	if err != nil {
		return nil, err
	}
	out := &api.EffectiveOperationPolicy{
		ProjectID: p.ID, Operation: e.Operation, Policy: api.OperationOverlay(e.Overlay), DecidedBy: map[string]api.OperationDecision{},
	}
	out.Policy.Conditions, out.PolicyEngine = nil, a.c.Operations.Engine != nil
	for _, c := range e.Conditions() {
		out.Conditions = append(out.Conditions, api.RuledCondition{OperationRule: *ruleResource(c.Rule), Name: c.Name, Message: c.Message})
	}
	for key, d := range e.By {
		if broker.OperationOverlay(out.Policy).Value(key) == nil {
			continue
		}
		decision := api.OperationDecision{OperationRule: *ruleResource(d.Rule)}
		if d.Apart != nil {
			decision.Apart = ruleResource(*d.Apart)
		}
		out.DecidedBy[key] = decision
	}
	return out, nil
}

func operationPolicyResource(p broker.OperationPolicy) api.OperationPolicy {
	return api.OperationPolicy{
		OperationRule: *ruleResource(p.Rule()), OrganisationID: p.Place.OrganisationID, ProjectID: p.Place.ProjectID,
		Policy: api.OperationOverlay(p.Overlay), UpdatedAt: p.UpdatedAt,
	}
}

func ruleResource(r broker.OperationRule) *api.OperationRule {
	return &api.OperationRule{Level: string(r.Level), Operation: r.Operation}
}
