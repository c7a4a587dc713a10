package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// definitionsGate is the lock that a transaction holds alone, until its commit, to add a definition, so
// that their number holds.
const definitionsGate = leadLock + 5

const (
	definitionRecord  = `operation, version, summary, status, digest, shipped, created_at, created_by, changed_at, changed_by`
	definitionColumns = definitionRecord + `, content`
)

func definitionFields(d *broker.OperationDefinition) []any {
	return []any{
		&d.Operation, &d.Version, &d.Summary, &d.Status, &d.Digest, &d.Shipped, sqlkit.ScanMicros(&d.CreatedAt), &d.CreatedBy,
		sqlkit.ScanMicros(&d.ChangedAt), &d.ChangedBy,
	}
}

func scanDefinitionRecord(row sqlkit.Row) (d broker.OperationDefinition, err error) {
	err = row.Scan(definitionFields(&d)...)
	return d, err
}

func scanDefinition(row sqlkit.Row) (d broker.OperationDefinition, err error) {
	err = row.Scan(append(definitionFields(&d), sqlkit.ScanRawJSON(&d.Content))...)
	return d, err
}

// OperationDefinitionFilter selects definitions; an empty field adds no condition.
type OperationDefinitionFilter struct {
	Operation string
	Status    broker.OperationDefinitionStatus
	After     string // cursor: the id of the last definition of the previous page
	Limit     int    // 0: all
}

// OperationDefinitions returns a page without content, ordered by id, and the cursor of the next page
// ("" at the end).
func (db *DB) OperationDefinitions(ctx context.Context, f OperationDefinitionFilter) ([]broker.OperationDefinition, string, error) {
	var w sqlkit.Where
	w.Equal("operation", f.Operation)
	w.Equal("status", string(f.Status))
	if f.After != "" {
		w.Add("id > ?", f.After)
	}
	return pageOf(ctx, db, scanDefinitionRecord, broker.OperationDefinition.ID,
		`SELECT `+definitionRecord+` FROM operation_definitions`, w, f.Limit)
}

// OperationDefinition finds a definition with its content. Code: operation_definition_not_found.
func (db *DB) OperationDefinition(ctx context.Context, id string) (broker.OperationDefinition, error) {
	return operationDefinition(ctx, db.reader(), id, "")
}

func operationDefinition(ctx context.Context, r sqlkit.Runner, id, lock string) (broker.OperationDefinition, error) {
	d, err := scanDefinition(r.QueryRowContext(ctx, `SELECT `+definitionColumns+` FROM operation_definitions WHERE id = $1`+lock, id))
	if errors.Is(err, sql.ErrNoRows) {
		return d, broker.OperationDefinitionNotFound(id)
	}
	return d, err
}

// PushOperationDefinition stores a definition as a draft: a new one, or other content of a draft. had
// reports that the content is that of before, and that nothing changed. Codes: operation_definition_fixed,
// operation_definition_limit.
func (db *DB) PushOperationDefinition(
	ctx context.Context, actor broker.Actor, d broker.OperationDefinition,
) (kept broker.OperationDefinition, had bool, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		had = false
		if err := t.lock(ctx, t.GateAlone(), definitionsGate); err != nil {
			return err
		}
		e := definitionEntry(actor, "push", d)
		old, err := operationDefinition(ctx, t, d.ID(), t.ForUpdate())
		switch {
		case broker.AsError(err).Kind == broker.NotFound:
			d.Status, d.Shipped = broker.DefinitionDraft, false
			kept, err = t.addOperationDefinition(ctx, d, e)
			return err
		case err != nil:
			return err
		case old.Digest == d.Digest:
			kept, had = old, true
			return nil
		}
		kept, err = t.replaceDraft(ctx, old, d, e)
		return err
	})
	return kept, had, err
}

// replaceDraft gives a draft other content.
func (t *tx) replaceDraft(ctx context.Context, old, d broker.OperationDefinition, e broker.AuditEntry) (broker.OperationDefinition, error) {
	e.Before = small("digest", old.Digest, "status", old.Status)
	if err := old.MayReplace(); err != nil {
		return old, refuse(broker.AsError(err), e)
	}
	kept, err := scanDefinition(t.QueryRowContext(ctx, `UPDATE operation_definitions SET summary = $1, digest = $2, content = $3, changed_at = $4, changed_by = $5
		WHERE id = $6 AND status = 'draft' AND digest = $7 RETURNING `+definitionColumns,
		d.Summary, d.Digest, string(d.Content), sqlkit.Micros(t.now), e.Actor, d.ID(), old.Digest))
	if err != nil {
		return kept, err
	}
	e.After = small("digest", kept.Digest, "status", kept.Status)
	return kept, t.audit(ctx, e)
}

// addOperationDefinition stores a definition with a new id. The caller holds definitionsGate. Code:
// operation_definition_limit.
func (t *tx) addOperationDefinition(
	ctx context.Context, d broker.OperationDefinition, e broker.AuditEntry,
) (broker.OperationDefinition, error) {
	var there int
	if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM operation_definitions`).Scan(&there); err != nil {
		return d, err
	}
	if there >= broker.MaxOperationDefinitions {
		return d, refuse(broker.Errorf(broker.Refused, "operation_definition_limit",
			"cannot store definition %s: the broker has %d versions of operations and takes no more (push content for a draft that is not needed)",
			d.ID(), there), e)
	}
	d, err := scanDefinition(t.QueryRowContext(ctx, `INSERT INTO operation_definitions
		(id, operation, version, summary, status, digest, content, shipped, created_at, created_by, changed_at, changed_by)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $9, $10) RETURNING `+definitionColumns,
		d.ID(), d.Operation, d.Version, d.Summary, d.Status, d.Digest, string(d.Content), d.Shipped, sqlkit.Micros(t.now), e.Actor))
	if err != nil {
		return d, err
	}
	e.After = small("digest", d.Digest, "status", d.Status)
	return d, t.audit(ctx, e)
}

func definitionEntry(actor broker.Actor, action string, d broker.OperationDefinition) broker.AuditEntry {
	return broker.AuditEntry{Actor: actor.Name, Action: "operation_definition." + action, Subject: "operation_definition/" + d.ID()}
}

// definitionActions name the moves in the audit log, by the status that they lead to.
var definitionActions = map[broker.OperationDefinitionStatus]string{
	broker.DefinitionActive: "activate", broker.DefinitionDeprecated: "deprecate", broker.DefinitionRetired: "retire",
}

// MoveOperationDefinition moves a definition to a status; in it already, nothing changes. With a digest
// the definition must have that content. Codes: operation_definition_not_found, operation_definition_changed,
// transition_refused.
func (db *DB) MoveOperationDefinition(
	ctx context.Context, actor broker.Actor, id string, to broker.OperationDefinitionStatus, digest, reason string,
) (d broker.OperationDefinition, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		old, err := operationDefinition(ctx, t, id, t.ForUpdate())
		if err != nil {
			return err
		}
		e := definitionEntry(actor, definitionActions[to], old)
		e.Before = small("digest", old.Digest, "status", old.Status)
		if digest != "" && digest != old.Digest {
			return refuse(broker.Errorf(broker.Refused, "operation_definition_changed",
				"cannot move definition %s to %s: its content is %s, and not what was asked for (see hostler operation-definition show %s)",
				old.ID(), to, old.Digest, old.ID()), e)
		}
		if d = old; old.Status == to {
			return nil
		}
		if err := broker.TransitionOperationDefinition(old, to); err != nil {
			return refuse(broker.AsError(err), e)
		}
		if to == broker.DefinitionRetired {
			if err := t.unbound(ctx, old.ID()); err != nil {
				return refuse(broker.AsError(err), e)
			}
		}
		if d, err = scanDefinition(t.QueryRowContext(ctx, `UPDATE operation_definitions SET status = $1, changed_at = $2, changed_by = $3
			WHERE id = $4 AND status = $5 AND digest = $6 RETURNING `+definitionColumns,
			to, sqlkit.Micros(t.now), actor.Name, id, old.Status, old.Digest)); err != nil {
			return err
		}
		e.Reason, e.After = reason, small("digest", d.Digest, "status", d.Status)
		return t.audit(ctx, e)
	})
	return d, err
}

// unbound refuses a definition that a SKU or a live project names for its allocations: without it, each of them would
// fail. Code: operation_definition_bound.
func (t *tx) unbound(ctx context.Context, id string) error {
	pattern := `%"operation":"` + strings.ReplaceAll(id, "_", "!_") + `"%`
	where, err := sqlkit.Collect(ctx, t, func(row sqlkit.Row) (name string, err error) { return name, row.Scan(&name) },
		`SELECT 'SKU ' || id FROM skus WHERE bindings LIKE $1 ESCAPE '!'
		UNION ALL SELECT 'project ' || id FROM projects WHERE ended_at = 0 AND bindings LIKE $1 ESCAPE '!' LIMIT 4`, pattern)
	if err != nil || len(where) == 0 {
		return err
	}
	if len(where) > 3 {
		where[3] = "others"
	}
	return broker.Errorf(broker.Refused, "operation_definition_bound", "cannot retire definition %s: %s run it when allocations begin or end, and would "+
		"all fail (name another there first, or switch it off with hostler operation policy set)", id, strings.Join(where, ", "))
}

// ShipOperationDefinitions stores the definitions that come with the broker, as active, unless their ids
// are taken. What is stored stays as it is, whatever its status and content. Code: operation_definition_limit.
func (db *DB) ShipOperationDefinitions(ctx context.Context, all []broker.OperationDefinition) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		if err := t.lock(ctx, t.GateAlone(), definitionsGate); err != nil {
			return err
		}
		for _, d := range all {
			_, err := operationDefinition(ctx, t, d.ID(), "")
			if broker.AsError(err).Kind == broker.NotFound {
				d.Status, d.Shipped = broker.DefinitionActive, true
				_, err = t.addOperationDefinition(ctx, d, definitionEntry(broker.System, "ship", d))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// UnlikeOperationDefinitions returns those definitions of a list whose ids are not stored, and those whose
// ids are stored with other content.
func (db *DB) UnlikeOperationDefinitions(
	ctx context.Context, all []broker.OperationDefinition,
) (missing, other []broker.OperationDefinition, err error) {
	ids := make([]string, len(all))
	for i, d := range all {
		ids[i] = d.ID()
	}
	var w sqlkit.Where
	sqlkit.In(&w, "id", ids)
	kept := map[string]string{}
	if _, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (none struct{}, err error) {
		var id, digest string
		err = row.Scan(&id, &digest)
		kept[id] = digest
		return none, err
	}, `SELECT id, digest FROM operation_definitions`+w.String(), w.Args...); err != nil {
		return nil, nil, err
	}
	for _, d := range all {
		switch digest, there := kept[d.ID()]; {
		case !there:
			missing = append(missing, d)
		case digest != d.Digest:
			other = append(other, d)
		}
	}
	return missing, other, nil
}
