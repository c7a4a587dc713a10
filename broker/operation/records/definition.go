package records

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operation/definition"
	"github.com/hostler/hostler/taskcatalog"
)

// Definition reads a definition that may run. The warning is empty unless it is deprecated. Codes:
// operation_definition_not_found, operation_definition_draft, operation_definition_retired,
// operation_definition_unreadable.
func (r *Records) Definition(ctx context.Context, id string) (d *definition.Definition, warning string, err error) {
	kept, err := r.DB.OperationDefinition(ctx, id)
	if err != nil {
		return nil, "", err
	}
	if warning, err = kept.MayRun(); err != nil {
		return nil, "", err
	}
	d, err = definitionOf(kept)
	return d, warning, err
}

// definitionOf reads a stored definition. Code: operation_definition_unreadable.
func definitionOf(kept broker.OperationDefinition) (*definition.Definition, error) {
	d := &definition.Definition{}
	if err := taskcatalog.DecodeStrict(kept.Content, d); err != nil || d.Digest() != kept.Digest || d.ID() != kept.ID() {
		return nil, broker.Errorf(broker.Refused, "operation_definition_unreadable",
			"cannot run %s: its stored content is not that of its digest (the database was changed, or a newer broker wrote it)", kept.ID())
	}
	return d, nil
}
