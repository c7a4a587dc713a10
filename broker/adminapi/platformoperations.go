package adminapi

import (
	"cmp"
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	operationrecords "github.com/hostler/hostler/broker/operation/records"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

type createPlatformOperationInput struct {
	RequestKey
	Body api.PlatformOperationCreate
}

// orderedOnNodes checks what the platform asks for. Codes: operation_target_invalid, selector_invalid, node_not_found.
func (a *API) orderedOnNodes(ctx context.Context, in *createPlatformOperationInput) (w operationrecords.Order, warning string, err error) {
	switch b := in.Body; {
	case (b.Node == "") == (b.Nodes == ""):
		return w, "", broker.Errorf(broker.Invalid, "operation_target_invalid", "cannot begin an operation: it needs one target (node, or nodes)")
	case b.Nodes == "":
		if w.Node, err = a.node(ctx, b.Node); err != nil {
			return w, "", err
		}
	default:
		s, err := broker.ParseSelector(b.Nodes)
		if err == nil {
			s, err = a.namedNodes(ctx, s)
		}
		if err != nil {
			return w, "", err
		}
		w.Group = &operationrecords.Group{Selector: s, Sites: callerOf(ctx).sites()}
	}
	w.Inputs = in.Body.Inputs
	w.Batches = broker.OperationBatches{Canary: in.Body.Canary, Size: in.Body.Batch, MaxFailures: in.Body.MaxFailures}
	w.Definition, warning, err = a.c.Operations.Definition(ctx, in.Body.Operation)
	return w, warning, err
}

// createPlatformOperation begins an operation on a node, or a group of nodes, that no allocation holds.
func (a *API) createPlatformOperation(ctx context.Context, in *createPlatformOperationInput) (*api.PlatformOperation, error) {
	w, _, err := a.orderedOnNodes(ctx, in)
	if err != nil {
		return nil, err
	}
	subject, on := "node/"+w.Node.ID, "node "+w.Node.ID
	if w.Group != nil {
		named := taskcatalog.Clean(w.Group.Selector.String(), 200)
		subject, on = "nodes/"+named, "nodes "+named
	}
	if w.Reason, err = a.reasonFor(ctx, in.Body.Reason, "operation.request", subject, "begin an operation on "+on); err != nil {
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
	w, warning, err := a.orderedOnNodes(ctx, in)
	if err != nil {
		return nil, err
	}
	return a.operationPlan(ctx, w, warning)
}

// plannedNodes shows on which nodes a group's operation would run.
func (a *API) plannedNodes(ctx context.Context, o broker.Operation) (all []api.PlannedNode, err error) {
	if !o.NodeGroup() {
		return nil, nil
	}
	for place, id := range o.NodeIDs {
		n, err := a.c.DB.Node(ctx, id)
		if err != nil {
			return nil, err
		}
		all = append(all, api.PlannedNode{ID: n.ID, Hostname: n.Hostname, Batch: o.Batches.Of(place) + 1})
	}
	return all, nil
}

func passedNode(p operationrecords.Passed) api.PassedNode {
	return api.PassedNode{ID: p.Node.ID, Hostname: p.Node.Hostname, Code: p.Code, Because: p.Message}
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
