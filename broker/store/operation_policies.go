package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// maxOperationPolicies is how many policies of operations a place may have.
const maxOperationPolicies = 200

const operationPolicyColumns = `organisation_id, project_id, operation, policy, updated_at`

// operationPolicyRow is a stored policy that is not read yet: one that cannot be read can still be replaced and removed.
type operationPolicyRow struct {
	place     broker.Place
	operation string
	overlay   json.RawMessage
	updatedAt time.Time
}

func scanOperationPolicyRow(row sqlkit.Row) (r operationPolicyRow, err error) {
	err = row.Scan(&r.place.OrganisationID, &r.place.ProjectID, &r.operation, sqlkit.ScanRawJSON(&r.overlay),
		sqlkit.ScanMicros(&r.updatedAt))
	return r, err
}

// read reads the stored overlay. Code: operation_policy_unreadable.
func (r operationPolicyRow) read() (broker.OperationPolicy, error) {
	o, err := broker.OperationPolicyOf(r.overlay)
	return broker.OperationPolicy{Place: r.place, Operation: r.operation, Overlay: o, UpdatedAt: r.updatedAt}, err
}

func scanOperationPolicy(row sqlkit.Row) (broker.OperationPolicy, error) {
	r, err := scanOperationPolicyRow(row)
	if err != nil {
		return broker.OperationPolicy{}, err
	}
	return r.read()
}

// OperationPolicies returns a page of the policies of a place itself, ordered by operation, and the cursor
// of the next page. Code: operation_policy_unreadable.
func (db *DB) OperationPolicies(
	ctx context.Context, at broker.Place, after string, limit int,
) (page []broker.OperationPolicy, next string, err error) {
	var w sqlkit.Where
	w.Add("organisation_id = ?", at.OrganisationID)
	w.Add("project_id = ?", at.ProjectID)
	w.Add("operation > ?", after)
	page, err = sqlkit.Collect(ctx, db.reader(), scanOperationPolicy,
		`SELECT `+operationPolicyColumns+` FROM operation_policies`+w.String()+` ORDER BY operation`+w.Limit(limit+1), w.Args...)
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].Operation
	}
	return page, next, err
}

// OperationPolicy returns the policy of a place itself for an operation. Codes: operation_policy_not_found,
// operation_policy_unreadable.
func (db *DB) OperationPolicy(ctx context.Context, at broker.Place, operation string) (broker.OperationPolicy, error) {
	r, err := operationPolicyRowOf(ctx, db.reader(), at, operation, "")
	if err != nil {
		return broker.OperationPolicy{}, err
	}
	return r.read()
}

func operationPolicyRowOf(ctx context.Context, from sqlkit.Runner, at broker.Place, operation, lock string) (operationPolicyRow, error) {
	r, err := scanOperationPolicyRow(from.QueryRowContext(ctx, `SELECT `+operationPolicyColumns+` FROM operation_policies
		WHERE organisation_id = $1 AND project_id = $2 AND operation = $3`+lock, at.OrganisationID, at.ProjectID, operation))
	if errors.Is(err, sql.ErrNoRows) {
		rule := broker.OperationRule{Level: broker.OperationLevelOf(at), Operation: taskcatalog.Clean(operation, 64)}
		return r, broker.Errorf(broker.NotFound, "operation_policy_not_found",
			"%s is not set (see hostler operation policy list, or what applies: hostler operation policy explain)", rule)
	}
	return r, err
}

// EffectiveOperationPolicy merges the policies of all levels for an operation in a place. A policy that cannot be read
// is an error: nobody knows what it denies. Code: operation_policy_unreadable.
func (db *DB) EffectiveOperationPolicy(
	ctx context.Context, at broker.Place, operation string,
) (e broker.EffectiveOperationPolicy, err error) {
	return effectiveOperationPolicy(ctx, db.reader(), at, operation)
}

func effectiveOperationPolicy(
	ctx context.Context, r sqlkit.Runner, at broker.Place, operation string,
) (e broker.EffectiveOperationPolicy, err error) {
	rows, err := operationPolicyRows(ctx, r, at, operation)
	if err != nil {
		return e, err
	}
	all, err := readOperationPolicies(rows)
	if err != nil {
		return e, err
	}
	return broker.MergeOperationPolicies(at, operation, all), nil
}

// operationPolicyRows returns the policies of a place and of the wider places, for an operation and for all operations.
func operationPolicyRows(ctx context.Context, r sqlkit.Runner, at broker.Place, operation string) ([]operationPolicyRow, error) {
	return sqlkit.Collect(ctx, r, scanOperationPolicyRow, `SELECT `+operationPolicyColumns+` FROM operation_policies
		WHERE organisation_id IN ('', $1) AND project_id IN ('', $2) AND operation IN ($3, $4)`,
		at.OrganisationID, at.ProjectID, broker.AllOperations, operation)
}

func readOperationPolicies(rows []operationPolicyRow) (all []broker.OperationPolicy, err error) {
	for _, r := range rows {
		p, err := r.read()
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// SetOperationPolicy stores the policy of a live place for an operation, and replaces the former one. A policy that
// would widen a wider one is refused. With narrowOnly so is a policy that permits more than the one that it replaces.
// Codes: operation_policy_limit, policy_cannot_widen, operation_policy_unreadable, project_not_found, project_ended,
// organisation_not_found, organisation_ended.
func (db *DB) SetOperationPolicy(
	ctx context.Context, actor broker.Actor, p broker.OperationPolicy, narrowOnly bool, reason string,
) (kept broker.OperationPolicy, err error) {
	raw, err := taskcatalog.Encode(p.Overlay)
	if err != nil {
		return kept, err
	}
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		if err := t.lockPolicies(ctx, p.Place); err != nil {
			return err
		}
		e := operationPolicyEntry(actor, "operation_policy.set", p.Place, reason)
		e.After = small("operation", p.Operation, "policy", json.RawMessage(raw))
		rows, err := operationPolicyRows(ctx, t, p.Place, p.Operation)
		if err != nil {
			return err
		}
		own := slices.IndexFunc(rows, func(r operationPolicyRow) bool { return r.place == p.Place && r.operation == p.Operation })
		if own < 0 {
			if err := t.roomForOperationPolicy(ctx, p); err != nil {
				return err
			}
		} else {
			e.Before = small("operation", p.Operation, "policy", rows[own].overlay)
			if narrowOnly {
				if err := narrowsRow(p, rows[own]); err != nil {
					return refuse(broker.AsError(err), e)
				}
			}
			rows = slices.Delete(rows, own, own+1)
		}
		wider, err := readOperationPolicies(rows)
		if err != nil {
			return err
		}
		if err := p.CheckNarrows(wider); err != nil {
			return refuse(broker.AsError(err), e)
		}
		if kept, err = scanOperationPolicy(t.QueryRowContext(ctx, `INSERT INTO operation_policies (`+operationPolicyColumns+`)
			VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (organisation_id, project_id, operation) DO UPDATE SET policy = excluded.policy, updated_at = excluded.updated_at
			RETURNING `+operationPolicyColumns,
			p.Place.OrganisationID, p.Place.ProjectID, p.Operation, string(raw), sqlkit.Micros(t.now))); err != nil {
			return err
		}
		return t.audit(ctx, e)
	})
	return kept, err
}

// narrowsRow refuses a policy that permits more than a stored one. Codes: policy_cannot_widen, operation_policy_unreadable.
func narrowsRow(p broker.OperationPolicy, stored operationPolicyRow) error {
	before, err := stored.read()
	if err != nil {
		return err
	}
	if key := p.Overlay.Beyond(before.Overlay); key != "" {
		return broker.Errorf(broker.Refused, "policy_cannot_widen", "cannot set %s: its %s permits more than the policy in force, "+
			"and only a tenant_admin may widen it (keep every key that is set, or narrow it)", p.Rule(), key)
	}
	return nil
}

func (t *tx) roomForOperationPolicy(ctx context.Context, p broker.OperationPolicy) error {
	var there int
	if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM operation_policies WHERE organisation_id = $1 AND project_id = $2`,
		p.Place.OrganisationID, p.Place.ProjectID).Scan(&there); err != nil {
		return err
	}
	if there >= maxOperationPolicies {
		return broker.Errorf(broker.Refused, "operation_policy_limit",
			"cannot set %s: this level has policies for %d operations (remove one first)", p.Rule(), there)
	}
	return nil
}

// RemoveOperationPolicy deletes the policy of a place for an operation, also if the place has ended. Code:
// operation_policy_not_found.
func (db *DB) RemoveOperationPolicy(ctx context.Context, actor broker.Actor, at broker.Place, operation, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		e := operationPolicyEntry(actor, "operation_policy.remove", at, reason)
		had, err := operationPolicyRowOf(ctx, t, at, operation, t.ForUpdate())
		if err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `DELETE FROM operation_policies WHERE organisation_id = $1 AND project_id = $2 AND operation = $3`,
			at.OrganisationID, at.ProjectID, operation); err != nil {
			return err
		}
		e.Before = small("operation", operation, "policy", had.overlay)
		return t.audit(ctx, e)
	})
}

// lockPolicies locks a live place, so that its policies change one after another. The platform has no row to lock.
func (t *tx) lockPolicies(ctx context.Context, at broker.Place) (err error) {
	switch broker.OperationLevelOf(at) {
	case broker.OperationTenant:
		_, err = t.liveOrganisation(ctx, at.OrganisationID, t.ForUpdate())
	case broker.OperationProject:
		_, err = t.liveProject(ctx, at.ProjectID, t.ForUpdate())
	}
	return err
}

// operationPolicyEntry begins the audit entry of a change of a policy.
func operationPolicyEntry(actor broker.Actor, action string, at broker.Place, reason string) broker.AuditEntry {
	e := broker.AuditEntry{Actor: actor.Name, Action: action, Subject: "operation/policy", Reason: reason}
	switch broker.OperationLevelOf(at) {
	case broker.OperationTenant:
		e.Subject = "organisation/" + at.OrganisationID
	case broker.OperationProject:
		e.Subject = "project/" + at.ProjectID
	}
	return e
}
