package adminapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/operation/definition"
	"github.com/hostler/hostler/broker/store"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

type pushDefinitionInput struct {
	Body api.OperationDefinitionPush
}

// pushOperationDefinition judges a whole definition before it stores anything.
func (a *API) pushOperationDefinition(ctx context.Context, in *pushDefinitionInput) (*api.OperationDefinition, error) {
	file := profiles.File{Name: taskcatalog.Clean(in.Body.File, 200), Text: []byte(in.Body.Text)}
	d, problems := definition.Parse(file)
	if len(problems) > 0 {
		return nil, definitionProblem(file.Name, problems)
	}
	record, err := d.Record()
	if err != nil {
		return nil, err
	}
	kept, had, err := a.c.DB.PushOperationDefinition(withReason(ctx, in.Body.Reason), callerOf(ctx).actor(), record)
	if err != nil {
		return nil, err
	}
	out := definitionResource(kept)
	out.Had, out.Definition = had, kept.Content
	return &out, nil
}

// definitionProblem is the answer to a faulty definition: each fault with file, line and code.
func definitionProblem(file string, all definition.Problems) *problem {
	p := newProblem(http.StatusUnprocessableEntity, "operation_definition_invalid",
		fmt.Sprintf("cannot store the definition in %s: it has faults: %d (hostler operation-definition validate shows them without a broker)",
			file, len(all)))
	for _, f := range all {
		p.Errors = append(p.Errors, api.ProblemField{Location: fmt.Sprintf("%s:%d", f.File, f.Line), Code: string(f.Code), Message: f.Message})
	}
	return p
}

type definitionsInput struct {
	Operation string `query:"operation" maxLength:"64"`
	Status    string `query:"status" enum:"draft,active,deprecated,retired"`
	Cursor    string `query:"cursor" maxLength:"80"`
	Limit     int    `query:"limit" minimum:"0" maximum:"1000"`
}

func (a *API) listOperationDefinitions(ctx context.Context, in *definitionsInput) (*api.OperationDefinitionList, error) {
	page, next, err := a.c.DB.OperationDefinitions(ctx, store.OperationDefinitionFilter{
		Operation: in.Operation, Status: broker.OperationDefinitionStatus(in.Status), After: in.Cursor, Limit: pageLimit(in.Limit),
	})
	if err != nil {
		return nil, err
	}
	return &api.OperationDefinitionList{Items: resources(page, definitionResource), Next: next}, nil
}

// DefinitionInput names a definition.
type DefinitionInput struct {
	Definition string `path:"definition" maxLength:"80"`
}

func (a *API) showOperationDefinition(ctx context.Context, in *DefinitionInput) (*api.OperationDefinition, error) {
	return definitionAnswer(a.c.DB.OperationDefinition(ctx, in.Definition))
}

type activateDefinitionInput struct {
	DefinitionInput
	Body api.OperationDefinitionActivate
}

func (a *API) activateOperationDefinition(ctx context.Context, in *activateDefinitionInput) (*api.OperationDefinition, error) {
	reason := taskcatalog.Clean(in.Body.Reason, 500)
	return definitionAnswer(a.c.DB.MoveOperationDefinition(ctx, callerOf(ctx).actor(), in.Definition, broker.DefinitionActive,
		in.Body.Digest, reason))
}

type definitionReasonInput struct {
	DefinitionInput
	Body api.ReasonBody
}

func (a *API) deprecateOperationDefinition(ctx context.Context, in *definitionReasonInput) (*api.OperationDefinition, error) {
	return a.moveOperationDefinition(ctx, in, broker.DefinitionDeprecated, "deprecate")
}

func (a *API) retireOperationDefinition(ctx context.Context, in *definitionReasonInput) (*api.OperationDefinition, error) {
	return a.moveOperationDefinition(ctx, in, broker.DefinitionRetired, "retire")
}

func (a *API) moveOperationDefinition(
	ctx context.Context, in *definitionReasonInput, to broker.OperationDefinitionStatus, action string,
) (*api.OperationDefinition, error) {
	d, err := a.c.DB.OperationDefinition(ctx, in.Definition)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Body.Reason, "operation_definition."+action, "operation_definition/"+d.ID(), action+" definition "+d.ID())
	if err != nil {
		return nil, err
	}
	return definitionAnswer(a.c.DB.MoveOperationDefinition(ctx, callerOf(ctx).actor(), d.ID(), to, "", reason))
}

func definitionAnswer(d broker.OperationDefinition, err error) (*api.OperationDefinition, error) {
	if err != nil {
		return nil, err
	}
	out := definitionResource(d)
	out.Definition = d.Content
	return &out, nil
}

func definitionResource(d broker.OperationDefinition) api.OperationDefinition {
	return api.OperationDefinition{
		ID: d.ID(), Operation: d.Operation, Version: d.Version, Summary: d.Summary, Status: string(d.Status), Digest: d.Digest,
		Shipped: d.Shipped, CreatedAt: d.CreatedAt, CreatedBy: d.CreatedBy, ChangedAt: d.ChangedAt, ChangedBy: d.ChangedBy,
	}
}

// shippedDefinitions adds an alert if what came with the broker is not what the broker keeps.
func (a *API) shippedDefinitions(ctx context.Context, out *api.Status) error {
	ships, err := definition.Shipped()
	if err != nil {
		return err
	}
	missing, other, err := a.c.DB.UnlikeOperationDefinitions(ctx, ships)
	if len(other) > 0 {
		out.Alerts = append(out.Alerts, api.Alert{
			Code: "operation_definitions_differ",
			Message: fmt.Sprintf("definitions that came with the broker have other content than those that it keeps under the same ids, which stay in force: %s (see hostler operation-definition show)",
				definitionIDs(other)),
		})
	}
	if len(missing) > 0 {
		out.Alerts = append(out.Alerts, api.Alert{
			Code: "operation_definitions_missing",
			Message: fmt.Sprintf("definitions that came with the broker could not be stored: %s (the broker's log says why; restart the broker to try again)",
				definitionIDs(missing)),
		})
	}
	return err
}

func definitionIDs(all []broker.OperationDefinition) string {
	return strings.Join(resources(all, broker.OperationDefinition.ID), ", ")
}
