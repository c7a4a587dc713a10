package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog"
)

type bindProjectInput struct {
	ProjectInput
	Body api.ProjectBindings
}

// bindProject changes which operations run by themselves on a project's allocations.
func (a *API) bindProject(ctx context.Context, in *bindProjectInput) (*api.Project, error) {
	b := in.Body
	if b.OnBegin == nil && b.OnEnd == nil {
		return nil, broker.Errorf(broker.Invalid, "invalid_request", "nothing of project %s is to be changed (give on_begin or on_end)",
			taskcatalog.Clean(in.Project, 130))
	}
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	if err := a.checkBindings(ctx, p.Place(), b.OnBegin, b.OnEnd); err != nil {
		return nil, err
	}
	p, err = a.c.DB.SetBindings(ctx, callerOf(ctx).actor(), p.ID, taskcatalog.Clean(b.Reason, 500), func(now *broker.OperationBindings) {
		if b.OnBegin != nil {
			now.OnBegin = boundOf(b.OnBegin)
		}
		if b.OnEnd != nil {
			now.OnEnd = boundOf(b.OnEnd)
		}
	})
	return resource(projectView(ctx))(p, err)
}

// checkBindings refuses operations that cannot run by themselves on allocations of a place. Nil and an empty
// operation bind nothing.
func (a *API) checkBindings(ctx context.Context, at broker.Place, begin, end *api.BoundOperation) error {
	for t, given := range map[broker.OperationTrigger]*api.BoundOperation{broker.TriggerBegin: begin, broker.TriggerEnd: end} {
		b := boundOf(given)
		if b == nil {
			continue
		}
		if err := a.c.Operations.CheckBinding(ctx, at, t, *b); err != nil {
			return err
		}
	}
	return nil
}

// boundOf is a bound operation; nil: none is bound.
func boundOf(b *api.BoundOperation) *broker.BoundOperation {
	if b == nil || b.Operation == "" {
		return nil
	}
	return &broker.BoundOperation{Operation: b.Operation, Inputs: b.Inputs}
}

func boundResource(b *broker.BoundOperation) *api.BoundOperation {
	if b == nil {
		return nil
	}
	return &api.BoundOperation{Operation: b.Operation, Inputs: b.Inputs}
}
