package adminapi

import (
	"cmp"
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	operationrecords "github.com/hostler/hostler/broker/operation/records"
	"github.com/hostler/hostler/pki"
)

type createPlatformOperationInput struct {
	RequestKey
	Body api.PlatformOperationCreate
}

func (a *API) orderedOnNode(ctx context.Context, in *createPlatformOperationInput) (w operationrecords.Order, warning string, err error) {
	if w.Node, err = a.node(ctx, in.Body.Node); err != nil {
		return w, "", err
	}
	w.Inputs = in.Body.Inputs
	w.Definition, warning, err = a.c.Operations.Definition(ctx, in.Body.Operation)
	return w, warning, err
}

// createPlatformOperation begins an operation on a node that no allocation holds.
func (a *API) createPlatformOperation(ctx context.Context, in *createPlatformOperationInput) (*api.PlatformOperation, error) {
	w, _, err := a.orderedOnNode(ctx, in)
	if err != nil {
		return nil, err
	}
	if w.Reason, err = a.reasonFor(ctx, in.Body.Reason, "operation.request", "node/"+w.Node.ID, "begin an operation on node "+w.Node.ID); err != nil {
		return nil, err
	}
	o, err := a.beginOperation(ctx, w, order{body: in.Body, key: in.IdempotencyKey, path: "/operations"})
	if err != nil {
		return nil, err
	}
	out := platformOperation(o)
	return &out, nil
}

func (a *API) planPlatformOperation(ctx context.Context, in *createPlatformOperationInput) (*api.OperationPlan, error) {
	w, warning, err := a.orderedOnNode(ctx, in)
	if err != nil {
		return nil, err
	}
	return a.operationPlan(ctx, w, warning)
}

type operationsInput struct {
	OperationPageInput
	Project string `query:"project" maxLength:"130" doc:"only operations of this project: an id, a name, or ORGANISATION/NAME"`
}

func (a *API) listOperations(ctx context.Context, in *operationsInput) (*api.PlatformOperationList, error) {
	projectID := ""
	if in.Project != "" {
		p, err := a.project(ctx, in.Project)
		if err != nil {
			return nil, err
		}
		projectID = p.ID
	} else if in.Allocation != "" { // the index of operations begins with the project
		found, err := a.anyAllocation(ctx, in.Allocation)
		if err != nil {
			return nil, err
		}
		projectID = found.ProjectID
	}
	f, err := in.filter(projectID)
	if err != nil {
		return nil, err
	}
	f.Sites = callerOf(ctx).sites()
	page, next, err := a.c.DB.Operations(ctx, f)
	return &api.PlatformOperationList{Items: resources(page, platformOperation), Next: next}, err
}

// anyOperation finds an operation of any project, or of the platform, at a site that the caller may see.
func (a *API) anyOperation(ctx context.Context, id string) (broker.Operation, error) {
	o, err := a.c.DB.Operation(ctx, id)
	return operationSeen(callerOf(ctx), o, id, err)
}

func (a *API) showOperation(ctx context.Context, in *ExecutionInput) (*api.PlatformOperation, error) {
	o, err := a.anyOperation(ctx, in.Operation)
	if err != nil {
		return nil, err
	}
	out := platformOperation(o)
	out.Progress, err = a.operationProgress(ctx, o)
	return &out, err
}

type operationStatementInput struct {
	ExecutionInput
	Attempt int `query:"attempt" minimum:"0" maximum:"1000" doc:"default: the present attempt"`
}

// operationStatement returns the statement of an attempt, as it was signed. It names nodes, and is for the
// platform alone.
func (a *API) operationStatement(ctx context.Context, in *operationStatementInput) (*api.OperationStatement, error) {
	o, err := a.anyOperation(ctx, in.Operation)
	if err != nil {
		return nil, err
	}
	attempt := cmp.Or(in.Attempt, o.Attempt)
	file, err := a.c.DB.OperationStatement(ctx, o.ID, attempt)
	if err != nil {
		return nil, err
	}
	return &api.OperationStatement{OperationID: o.ID, Attempt: attempt, Digest: pki.Digest(file), File: string(file)}, nil
}

type operationActionInput struct {
	ExecutionInput
	Body api.ReasonBody
}

func (a *API) cancelOperation(ctx context.Context, in *operationActionInput) (*api.PlatformOperation, error) {
	return a.onAnyOperation(ctx, in, "cancel", a.cancelOperationOf)
}

func (a *API) retryOperation(ctx context.Context, in *operationActionInput) (*api.PlatformOperation, error) {
	return a.onAnyOperation(ctx, in, "retry", a.retryOperationOf)
}

func (a *API) onAnyOperation(
	ctx context.Context, in *operationActionInput, what string,
	do func(context.Context, broker.Operation, string) (broker.Operation, error),
) (*api.PlatformOperation, error) {
	o, err := a.anyOperation(ctx, in.Operation)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Body.Reason, "operation."+what, "operation/"+o.ID, what+" operation "+o.ID)
	if err != nil {
		return nil, err
	}
	if o, err = do(ctx, o, reason); err != nil {
		return nil, err
	}
	out := platformOperation(o)
	return &out, nil
}

func platformOperation(o broker.Operation) api.PlatformOperation {
	return api.PlatformOperation{
		Operation: operationResource(o), Site: o.Site, NodeIDs: append([]string{}, o.NodeIDs...), RunID: o.RunID, Detail: o.Message,
		CanceledBy: o.CanceledBy, CancelReason: o.CancelReason,
	}
}
