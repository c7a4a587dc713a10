package adminapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	operationrecords "github.com/hostler/hostler/broker/operation/records"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

type createOperationInput struct {
	ProjectInput
	RequestKey
	Body api.OperationCreate
}

// ordered checks what a project asks for. An allocation of another project does not exist for it.
func (a *API) ordered(ctx context.Context, in *createOperationInput) (w operationrecords.Order, warning string, err error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return w, "", err
	}
	w = operationrecords.Order{Inputs: in.Body.Inputs, Project: p, Reason: taskcatalog.Clean(in.Body.Reason, 500)}
	if err := a.aim(ctx, in.Body, &w); err != nil {
		return w, "", err
	}
	w.Batches = broker.OperationBatches{Canary: in.Body.Canary, Size: in.Body.Batch, MaxFailures: in.Body.MaxFailures}
	w.Definition, warning, err = a.c.Operations.Definition(ctx, in.Body.Operation)
	return w, warning, err
}

// aim reads the target of an order. Codes: operation_target_invalid, selector_invalid, allocation_not_found.
func (a *API) aim(ctx context.Context, b api.OperationCreate, w *operationrecords.Order) error {
	switch who := callerOf(ctx); {
	case (b.AllocationID == "") == (b.Group == ""):
		return broker.Errorf(broker.Invalid, "operation_target_invalid", "cannot begin an operation: it needs one target (allocation_id, or group)")
	case b.Group == "":
		found, err := a.c.DB.ProjectAllocation(ctx, w.Project.ID, b.AllocationID)
		w.Allocation, err = seenBy(who, found, err)
		return err
	default: // whoever begins it finds the members: a repeated request has begun already
		s, err := broker.ParseGroup(b.Group)
		w.Group = &operationrecords.Group{Selector: s, Sites: who.reservedSites()}
		return err
	}
}

// createOperation begins an operation of a project.
func (a *API) createOperation(ctx context.Context, in *createOperationInput) (*api.Operation, error) {
	w, _, err := a.ordered(ctx, in)
	if err != nil {
		return nil, err
	}
	o, err := a.beginOperation(ctx, w, order{body: in.Body, key: in.IdempotencyKey, path: "/projects/" + w.Project.ID + "/operations"})
	if err != nil {
		return nil, err
	}
	out := operationResource(o)
	return &out, nil
}

func (a *API) planOperation(ctx context.Context, in *createOperationInput) (*api.OperationPlan, error) {
	w, warning, err := a.ordered(ctx, in)
	if err != nil {
		return nil, err
	}
	return a.operationPlan(ctx, w, warning)
}

// operationPlan shows the plan of an operation, and begins nothing. It has no id.
func (a *API) operationPlan(ctx context.Context, w operationrecords.Order, warning string) (*api.OperationPlan, error) {
	var passed []api.PassedNode
	w.Passed = func(p operationrecords.Passed) { passed = append(passed, passedNode(p)) }
	o, err := a.c.Operations.New(ctx, w)
	if err != nil {
		return nil, err
	}
	nodes, err := a.plannedNodes(ctx, o)
	if err != nil {
		return nil, err
	}
	brings, err := a.c.Operations.Artifacts(ctx, o)
	if err != nil {
		return nil, err
	}
	o.Plan.OperationID = ""
	raw, err := taskcatalog.Encode(o.Plan)
	return &api.OperationPlan{
		Warning: warning, Plan: json.RawMessage(raw), Artifacts: resources(brings, plannedArtifact), Nodes: nodes, PassedOver: passed,
	}, err
}

func plannedArtifact(p operationrecords.Artifact) api.PlannedArtifact {
	return api.PlannedArtifact{
		Source: p.Source, Digest: p.Digest, Steps: p.Steps, SignatureRequired: p.Required, Because: p.By,
		Signatures: resources(p.Signatures, func(s operationrecords.Signature) api.PlannedSignature {
			return api.PlannedSignature{
				Signer: s.Signer, SignerSource: s.Place, KeyDigest: s.Key, Issuer: s.Issuer, Subject: s.Subject, Form: s.Form,
				SignedAt: s.SignedAt,
			}
		}),
	}
}

// beginOperation stores an operation and starts its run, or returns the operation that an earlier request with
// the same key began. Codes: those of records.New, operation_running, operation_limit, idempotency_conflict.
func (a *API) beginOperation(ctx context.Context, w operationrecords.Order, o order) (made broker.Operation, err error) {
	who := callerOf(ctx)
	w.RequestedBy, w.Role, w.Key = who.Name, string(who.Role), o.key
	w.TraceParent = broker.TraceParent(traceParent(ctx))
	o.refused = func(_ context.Context, err error) error { return operationError(a.countDenial(err), w.Project.ID) }
	before, err := a.begin(ctx, o, func(ctx context.Context) error {
		if made, err = a.c.Operations.New(ctx, w); err != nil {
			return err
		}
		_, err = a.c.Runs.Start(ctx, operationrecords.Start(made, w.Role))
		return err
	})
	if err != nil {
		return made, err
	}
	id := made.ID
	if before != "" {
		id = broker.OperationOfRun(before)
	}
	return a.c.DB.Operation(ctx, id)
}

// countDenial counts an error that is the denial of a policy, and returns it unchanged.
func (a *API) countDenial(err error) error {
	if code := broker.AsError(err).Code; slices.Contains(broker.OperationDenials(), code) && a.c.Denied != nil {
		a.c.Denied(code)
	}
	return err
}

// operationError makes an error of the API. A tenant reads of no run and of no node.
func operationError(err error, projectID string) error {
	if _, taken := errors.AsType[*chain.Locked](err); taken && projectID != "" {
		return broker.Errorf(broker.Refused, "operation_running",
			"cannot begin: another operation works on the same allocation, or on one of the group (wait until it has ended, or cancel it: hostler operation list)")
	}
	return runError(err)
}

// OperationPageInput selects a page of a list of operations. The type is exported because huma ignores
// embedded structs with unexported names.
type OperationPageInput struct {
	Status    string `query:"status" maxLength:"200" doc:"one or more statuses, separated by commas"`
	Operation string `query:"operation" maxLength:"70" doc:"only executions of this definition, such as model.artifact.stage@v1, or of all versions, such as model.artifact.stage"`

	Allocation string    `query:"allocation" maxLength:"64" doc:"only operations on this allocation"`
	From       time.Time `query:"from" doc:"only operations that were requested at this time or later"`
	To         time.Time `query:"to" doc:"only operations that were requested before this time"`
	Cursor     string    `query:"cursor" maxLength:"64"`
	Limit      int       `query:"limit" minimum:"0" maximum:"1000"`
}

// filter is the page of the operations of a project (empty: all). Code: status_unknown.
func (in OperationPageInput) filter(projectID string) (f store.OperationFilter, err error) {
	f = store.OperationFilter{
		ProjectID: projectID, Operation: in.Operation, AllocationID: in.Allocation, From: in.From, To: in.To, After: in.Cursor,
		Limit: pageLimit(in.Limit),
	}
	for name := range strings.SplitSeq(in.Status, ",") {
		if name == "" {
			continue
		}
		if !slices.Contains(broker.OperationStatuses, broker.OperationStatus(name)) {
			return f, broker.Errorf(broker.Invalid, "status_unknown", "cannot filter by status %q: there is no such status of an operation",
				taskcatalog.Clean(name, 40))
		}
		f.Statuses = append(f.Statuses, broker.OperationStatus(name))
	}
	return f, nil
}

type projectOperationsInput struct {
	ProjectInput
	OperationPageInput
}

func (a *API) listProjectOperations(ctx context.Context, in *projectOperationsInput) (*api.OperationList, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	f, err := in.filter(p.ID)
	if err != nil {
		return nil, err
	}
	f.Sites = callerOf(ctx).reservedSites()
	page, next, err := a.c.DB.Operations(ctx, f)
	return &api.OperationList{Items: resources(page, operationResource), Next: next}, err
}

// ExecutionInput names an operation.
type ExecutionInput struct {
	Operation string `path:"operation" maxLength:"64"`
}

type projectOperationInput struct {
	ProjectInput
	ExecutionInput
}

// operation finds the named operation of the named project, at a site that the caller may see. Another
// project's operation is answered like one that does not exist.
func (a *API) operation(ctx context.Context, project, id string) (broker.Operation, error) {
	p, err := a.project(ctx, project)
	if err != nil {
		return broker.Operation{}, err
	}
	o, err := a.c.DB.ProjectOperation(ctx, p.ID, id)
	return operationSeen(callerOf(ctx), o, id, err)
}

// operationSeen hides an operation at a site that a caller of the platform may not see.
func operationSeen(who caller, o broker.Operation, id string, err error) (broker.Operation, error) {
	if err == nil && who.Place.OfPlatform() && o.Site != "" && !who.MaySee(o.Site) {
		return broker.Operation{}, broker.OperationNotFound(id)
	}
	return o, err
}

func (a *API) showProjectOperation(ctx context.Context, in *projectOperationInput) (*api.Operation, error) {
	o, err := a.operation(ctx, in.Project, in.Operation)
	if err != nil {
		return nil, err
	}
	out := operationResource(o)
	out.Progress, err = a.operationProgress(ctx, o)
	return &out, err
}

type projectOperationStatementInput struct {
	ProjectInput
	ExecutionInput
	Attempt int `query:"attempt" minimum:"0" maximum:"1000" doc:"default: the present attempt"`
}

// projectOperationStatement returns the tenant's version of the statement of an attempt, as it was signed. It
// names no node.
func (a *API) projectOperationStatement(ctx context.Context, in *projectOperationStatementInput) (*api.OperationStatement, error) {
	o, err := a.operation(ctx, in.Project, in.Operation)
	if err != nil {
		return nil, err
	}
	attempt := cmp.Or(in.Attempt, o.Attempt)
	file, err := a.c.DB.OperationReceipt(ctx, o.ProjectID, o.ID, attempt)
	if err != nil {
		return nil, err
	}
	return &api.OperationStatement{OperationID: o.ID, Attempt: attempt, Digest: pki.Digest(file), File: string(file)}, nil
}

type projectOperationActionInput struct {
	ProjectInput
	ExecutionInput
	Body api.ReasonBody
}

func (a *API) cancelProjectOperation(ctx context.Context, in *projectOperationActionInput) (*api.Operation, error) {
	return a.onOperation(ctx, in, "cancel", a.cancelOperationOf)
}

func (a *API) retryProjectOperation(ctx context.Context, in *projectOperationActionInput) (*api.Operation, error) {
	return a.onOperation(ctx, in, "retry", a.retryOperationOf)
}

// onOperation changes an operation of a project: a member those that their own token began, an admin of the
// project all. Code: operation_not_yours.
func (a *API) onOperation(
	ctx context.Context, in *projectOperationActionInput, what string,
	do func(context.Context, broker.Operation, string) (broker.Operation, error),
) (*api.Operation, error) {
	o, err := a.operation(ctx, in.Project, in.Operation)
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	if !who.Place.OfPlatform() && o.RequestedBy != who.Name && !who.Role.Covers(projectAdmin) {
		no := broker.Errorf(broker.Forbidden, "operation_not_yours",
			"cannot %s operation %s: %s began it (ask that member, or an admin of the project)", what, o.ID, o.RequestedBy)
		a.auditDenial(ctx, "operation."+what, "operation/"+o.ID, "", no)
		return nil, no
	}
	if !who.Place.OfPlatform() && o.Trigger.Bound() {
		no := broker.Errorf(broker.Refused, "operation_bound", "cannot %s operation %s: it belongs to allocation %s (release the allocation; if its "+
			"release failed, release it again)", what, o.ID, o.AllocationID)
		a.auditDenial(ctx, "operation."+what, "operation/"+o.ID, "", no)
		return nil, no
	}
	if o, err = do(ctx, o, in.Body.Reason); err != nil {
		return nil, err
	}
	out := operationResource(o)
	return &out, nil
}

// cancelOperationOf asks for the end of an operation. One that has ended stays as it is.
func (a *API) cancelOperationOf(ctx context.Context, o broker.Operation, reason string) (broker.Operation, error) {
	return a.c.Operations.Cancel(ctx, callerOf(ctx).actor(), o.ID, taskcatalog.Clean(reason, 500))
}

// retryOperationOf begins the next attempt of an operation. An allocation tries its own operation again itself, before
// the account ends.
func (a *API) retryOperationOf(ctx context.Context, o broker.Operation, reason string) (broker.Operation, error) {
	if o.Trigger.Bound() {
		return o, broker.Errorf(broker.Refused, "operation_bound",
			"cannot retry operation %s: it belongs to allocation %s (ask for nodes again, or release the allocation again if its release failed)", o.ID,
			o.AllocationID)
	}
	s, err := a.c.Operations.Retry(ctx, o, a.orderedBy(ctx), taskcatalog.Clean(reason, 500))
	if err != nil {
		return o, a.countDenial(err)
	}
	if _, err := a.c.Runs.Start(ctx, s); err != nil {
		return o, operationError(a.countDenial(err), o.ProjectID)
	}
	return a.c.DB.Operation(ctx, o.ID)
}

func batchesOf(o broker.Operation) api.OperationBatches {
	return api.OperationBatches{
		Canary: o.Batches.Canary, Size: o.Batches.Size, MaxFailures: o.Batches.MaxFailures, Count: o.BatchCount(),
		Present: o.Batch, Stopped: o.HeldBack(),
	}
}

func operationMember(m broker.OperationMember) api.OperationMember {
	return api.OperationMember{
		AllocationID: m.AllocationID, NodeID: m.NodeID, Nodes: m.Nodes, Succeeded: m.Succeeded, Failed: m.Failed, Skipped: m.Skipped,
		Code: m.Code,
	}
}

func operationResource(o broker.Operation) api.Operation {
	return api.Operation{
		ID: o.ID, Operation: o.Operation, DefinitionDigest: o.DefinitionDigest, OrganisationID: o.OrganisationID, ProjectID: o.ProjectID,
		Target: string(o.Target), AllocationID: o.AllocationID, Nodes: len(o.NodeIDs), Trigger: string(o.Trigger), Batches: batchesOf(o),
		Group: o.Group(), Members: resources(o.Members, operationMember),
		RequestedBy: o.RequestedBy, Reason: o.Reason, CorrelationID: o.CorrelationID, TraceID: o.TraceParent.TraceID(),
		Status: string(o.Status), Attempt: o.Attempt, Canceling: o.CanceledBy != "" && !o.Status.Ended(), Code: o.Code,
		Message: o.Failure(), Progress: []api.OperationProgress{},
		RequestedAt: o.RequestedAt, StartedAt: timeOrNull(o.StartedAt), EndedAt: timeOrNull(o.EndedAt),
	}
}
