package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// TenantPage selects a page of organisations, projects, members or keys, ordered by id.
type TenantPage struct {
	Within broker.Place // only what is at the place or below it
	Ended  bool         // what has ended, too
	After  string       // cursor: the last id of the previous page
	Limit  int          // 0: all
}

// where begins the conditions of a page; organisation and project are the columns of the place.
func (p TenantPage) where(organisation, project string) (w sqlkit.Where) {
	w.Equal(organisation, p.Within.OrganisationID)
	if project != "" {
		w.Equal(project, p.Within.ProjectID)
	}
	if !p.Ended {
		w.Add("ended_at = 0")
	}
	if p.After != "" {
		w.Add("id > ?", p.After)
	}
	return w
}

// pageOf reads a page and the cursor of the next page ("" at the end).
func pageOf[T any](
	ctx context.Context, db *DB, scan func(sqlkit.Row) (T, error), id func(T) string, query string, w sqlkit.Where, limit int,
) (page []T, next string, err error) {
	query += w.String() + ` ORDER BY id`
	if limit > 0 {
		query += w.Limit(limit + 1)
	}
	if page, err = sqlkit.Collect(ctx, db.reader(), scan, query, w.Args...); err != nil {
		return nil, "", err
	}
	if limit > 0 && len(page) > limit {
		page = page[:limit]
		next = id(page[limit-1])
	}
	return page, next, nil
}

const organisationColumns = `id, name, created_at, ended_at`

func scanOrganisation(row sqlkit.Row) (o broker.Organisation, err error) {
	err = row.Scan(&o.ID, &o.Name, sqlkit.ScanMicros(&o.CreatedAt), sqlkit.ScanMicros(&o.EndedAt))
	return o, err
}

// Organisation finds an organisation by its id, or a live one by its name, among the organisations
// that a place reaches. Outside of the place the answer is the same as for no organisation. Code:
// organisation_not_found.
func (db *DB) Organisation(ctx context.Context, within broker.Place, ref string) (broker.Organisation, error) {
	var w sqlkit.Where
	w.Add("(id = ? OR name = ? AND ended_at = 0)", ref, ref)
	w.Equal("id", within.OrganisationID)
	o, err := scanOrganisation(db.reader().QueryRowContext(ctx, `SELECT `+organisationColumns+` FROM organisations`+w.String(), w.Args...))
	if errors.Is(err, sql.ErrNoRows) {
		return o, organisationNotFound(ref)
	}
	return o, err
}

func organisationNotFound(ref string) error {
	return broker.Errorf(broker.NotFound, "organisation_not_found", "there is no organisation %q (see hostler org list)", taskcatalog.Clean(ref, 100))
}

// Organisations returns a page of organisations, and the cursor of the next page.
func (db *DB) Organisations(ctx context.Context, p TenantPage) ([]broker.Organisation, string, error) {
	return pageOf(ctx, db, scanOrganisation, func(o broker.Organisation) string { return o.ID },
		`SELECT `+organisationColumns+` FROM organisations`, p.where("id", ""), p.Limit)
}

// liveOrganisation locks an organisation against its end until the transaction ends. Codes:
// organisation_not_found, organisation_ended.
func (t *tx) liveOrganisation(ctx context.Context, id, lock string) (broker.Organisation, error) {
	o, err := scanOrganisation(t.QueryRowContext(ctx, `SELECT `+organisationColumns+` FROM organisations WHERE id = $1`+lock, id))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return o, organisationNotFound(id)
	case err == nil && !o.EndedAt.IsZero():
		return o, broker.Errorf(broker.Refused, "organisation_ended", "cannot change organisation %s: it has ended", o.Name)
	}
	return o, err
}

// CreateOrganisation stores a new organisation. Code: organisation_exists.
func (db *DB) CreateOrganisation(ctx context.Context, actor broker.Actor, o broker.Organisation) (made broker.Organisation, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := sqlkit.Changed(t.ExecContext(ctx, `INSERT INTO organisations (id, name, created_at) VALUES ($1, $2, $3)
			ON CONFLICT DO NOTHING`, o.ID, o.Name, sqlkit.Micros(t.now)))
		if err != nil {
			return err
		}
		if n == 0 {
			return broker.Errorf(broker.Refused, "organisation_exists",
				"cannot create organisation %s: a live organisation has that name (choose another name)", o.Name)
		}
		made = broker.Organisation{ID: o.ID, Name: o.Name, CreatedAt: t.now}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "organisation.create", Subject: "organisation/" + o.ID, After: small("name", o.Name),
		})
	})
	return made, err
}

// EndOrganisation ends an organisation without live projects and members. Ending it again changes
// nothing. Codes: organisation_not_found, organisation_in_use.
func (db *DB) EndOrganisation(ctx context.Context, actor broker.Actor, id, reason string) (o broker.Organisation, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		o, err = t.liveOrganisation(ctx, id, t.ForUpdate())
		if err != nil {
			if !o.EndedAt.IsZero() {
				return nil
			}
			return err
		}
		var projects, members int
		if err := t.QueryRowContext(ctx, `SELECT
				(SELECT COUNT(*) FROM projects WHERE organisation_id = $1 AND ended_at = 0),
				(SELECT COUNT(*) FROM members WHERE organisation_id = $1 AND ended_at = 0)`, id).Scan(&projects, &members); err != nil {
			return err
		}
		e := broker.AuditEntry{Actor: actor.Name, Action: "organisation.end", Subject: "organisation/" + id, Before: small("name", o.Name)}
		if projects+members > 0 {
			return refuse(broker.Errorf(broker.Refused, "organisation_in_use",
				"cannot end organisation %s: live projects: %d, live members: %d (end those first)", o.Name, projects, members), e)
		}
		o.EndedAt, e.Reason = t.now, reason
		if _, err := t.ExecContext(ctx, `UPDATE organisations SET ended_at = $1 WHERE id = $2`, sqlkit.Micros(t.now), id); err != nil {
			return err
		}
		return t.audit(ctx, e)
	})
	return o, err
}
