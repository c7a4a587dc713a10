package adminapi

import (
	"context"
	"fmt"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// mostProgress bounds the nodes whose progress is shown.
const mostProgress = 64

// operationProgress is where the nodes of a running operation are.
func (a *API) operationProgress(ctx context.Context, o broker.Operation) ([]api.OperationProgress, error) {
	out := []api.OperationProgress{}
	if o.Status != broker.OperationRunning {
		return out, nil
	}
	for place, node := range o.NodeIDs[:min(len(o.NodeIDs), mostProgress)] {
		all, err := a.c.Operations.Tasks(ctx, node, o.RunID)
		if err != nil {
			return nil, err
		}
		for _, k := range all {
			out = append(out, progressOf(o, place, k))
		}
	}
	return out, nil
}

// progressOf is the present step of a task. What is no step of the plan is not shown.
func progressOf(o broker.Operation, place int, k broker.Task) api.OperationProgress {
	out := api.OperationProgress{Place: place + 1, TaskStatus: string(k.Status), Steps: len(o.Plan.Steps)}
	if k.Progress == nil {
		return out
	}
	i := slices.IndexFunc(o.Plan.Steps, func(s taskcatalog.PlannedStep) bool { return s.ID == k.Progress.CurrentStepName })
	if i < 0 {
		return out
	}
	out.StepID, out.StepIndex, out.Percent = o.Plan.Steps[i].ID, i+1, min(max(k.Progress.StepPercent, 0), 100)
	out.StartedAt = timeOrNull(k.Progress.StepStartedAt)
	return out
}

// OperationLogInput selects a page of an operation's rows. The type is exported because huma ignores
// embedded structs with unexported names.
type OperationLogInput struct {
	Step   string `query:"step_id" maxLength:"32" doc:"only rows of this step"`
	Cursor string `query:"cursor" maxLength:"64" doc:"the id of a row: only rows after it"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000"`
	Follow bool   `query:"follow" doc:"true: server-sent events until the operation has ended, instead of a page"`
	Last   string `header:"Last-Event-ID" maxLength:"64" doc:"with follow=true: like cursor; takes precedence over cursor"`
}

func (in OperationLogInput) follows() bool { return in.Follow }

// rows reads a page. Code: cursor_invalid.
func (a *API) rows(ctx context.Context, o broker.Operation, in OperationLogInput) (rows []broker.OperationStep, next string, err error) {
	var after store.StepPlace
	if in.Cursor != "" {
		if _, err := fmt.Sscanf(in.Cursor, "%d.%d.%d", &after.Task, &after.Place, &after.Seq); err != nil || rowID(after) != in.Cursor ||
			min(after.Task-1, after.Place, after.Seq) < 0 {
			return nil, "", broker.Errorf(broker.Invalid, "cursor_invalid", "cannot go on after row %q: it is the id of no row (leave cursor out)",
				taskcatalog.Clean(in.Cursor, 40))
		}
	}
	limit := pageLimit(in.Limit)
	rows, err = a.c.DB.OperationSteps(ctx, o.ID, in.Step, after, limit+1)
	if len(rows) > limit {
		rows = rows[:limit]
		next = rowID(placeOf(rows[limit-1]))
	}
	return rows, next, err
}

func placeOf(s broker.OperationStep) store.StepPlace {
	return store.StepPlace{Task: s.Task, Place: s.Place, Seq: s.Seq}
}

func rowID(p store.StepPlace) string { return fmt.Sprintf("%d.%d.%d", p.Task, p.Place, p.Seq) }

type projectOperationLogInput struct {
	ProjectInput
	ExecutionInput
	OperationLogInput
}

func (a *API) listProjectOperationLogs(ctx context.Context, in *projectOperationLogInput) (*api.OperationLog, error) {
	o, err := a.operation(ctx, in.Project, in.Operation)
	if err != nil {
		return nil, err
	}
	rows, next, err := a.rows(ctx, o, in.OperationLogInput)
	return &api.OperationLog{Items: resources(rows, operationLine), Next: next}, err
}

func (a *API) followProjectOperation(ctx context.Context, in *projectOperationLogInput) (*huma.StreamResponse, error) {
	o, err := a.operation(ctx, in.Project, in.Operation)
	if err != nil {
		return nil, err
	}
	leave, err := a.c.Events.JoinProject(callerOf(ctx).Name, o.OrganisationID, o.ProjectID)
	if err != nil {
		return nil, err
	}
	return a.followLog(ctx, o, in.OperationLogInput, func(s broker.OperationStep) any { return operationLine(s) }, leave)
}

type operationLogInput struct {
	ExecutionInput
	OperationLogInput
}

func (a *API) listOperationLogs(ctx context.Context, in *operationLogInput) (*api.PlatformOperationLog, error) {
	o, err := a.anyOperation(ctx, in.Operation)
	if err != nil {
		return nil, err
	}
	rows, next, err := a.rows(ctx, o, in.OperationLogInput)
	return &api.PlatformOperationLog{Items: resources(rows, platformOperationLine), Next: next}, err
}

func (a *API) followOperation(ctx context.Context, in *operationLogInput) (*huma.StreamResponse, error) {
	o, err := a.anyOperation(ctx, in.Operation)
	if err != nil {
		return nil, err
	}
	leave, err := a.c.Events.Join(callerOf(ctx).Name)
	if err != nil {
		return nil, err
	}
	return a.followLog(ctx, o, in.OperationLogInput, func(s broker.OperationStep) any { return platformOperationLine(s) }, leave)
}

func platformOperationLine(s broker.OperationStep) api.PlatformOperationLine {
	return api.PlatformOperationLine{
		OperationLine: operationLine(s), ResolvedProfile: s.ResolvedProfile, HardwareMatch: s.HardwareMatch, Message: s.Message,
	}
}

// operationLine is a row as a tenant sees it, without what a node says of itself.
func operationLine(s broker.OperationStep) api.OperationLine {
	return api.OperationLine{
		ID: rowID(placeOf(s)), Attempt: s.Task, Place: s.Place + 1, StepID: s.ID, StepKind: s.StepKind, AttemptNumber: s.AttemptNumber,
		Status: string(s.Status), ErrorCode: string(s.ErrorCode), DurationMS: s.DurationMS, Earlier: s.Earlier, Digest: s.Digest,
		Bytes: s.Bytes,
	}
}
