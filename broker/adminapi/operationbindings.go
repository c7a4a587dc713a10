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
	later, err := a.checkBindings(ctx, p.Place(), "", b.OnBegin, b.OnEnd)
	if err != nil {
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
	out, err := resource(projectView(ctx))(p, err)
	if err == nil {
		out.JudgedLater = later
	}
	return out, err
}

// checkBindings refuses operations that cannot run by themselves on allocations of a place, or of a SKU, and says what is
// judged later. Nil and an empty operation bind nothing.
func (a *API) checkBindings(ctx context.Context, at broker.Place, sku string, begin, end *api.BoundOperation) (later []string, err error) {
	for _, given := range []struct {
		trigger   broker.OperationTrigger
		operation *api.BoundOperation
	}{{broker.TriggerBegin, begin}, {broker.TriggerEnd, end}} {
		b := boundOf(given.operation)
		if b == nil {
			continue
		}
		more, err := a.c.Operations.CheckBinding(ctx, at, sku, given.trigger, *b)
		if err != nil {
			return nil, err
		}
		later = append(later, more...)
	}
	return later, nil
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
