package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// maxProjects is how many live projects an organisation may have.
const maxProjects = 200

const projectColumns = `id, organisation_id, name, created_at, ended_at, placement_order, node_labels, bindings`

func scanProject(row sqlkit.Row) (p broker.Project, err error) {
	err = row.Scan(&p.ID, &p.OrganisationID, &p.Name, sqlkit.ScanMicros(&p.CreatedAt), sqlkit.ScanMicros(&p.EndedAt),
		&p.Placement.Order, sqlkit.ScanJSON(&p.Placement.NodeLabels), sqlkit.ScanJSON(&p.Bindings))
	return p, err
}

// Project finds a project by its id, or a live one by NAME or ORGANISATION/NAME, among the projects
// that a place reaches. One statement answers, so that a project outside of the place and a project
// that never was get the same answer after the same time. Codes: project_not_found,
// ambiguous_project.
func (db *DB) Project(ctx context.Context, within broker.Place, ref string) (p broker.Project, err error) {
	var w sqlkit.Where
	if organisation, name, qualified := strings.Cut(ref, "/"); qualified {
		w.Add(`name = ? AND ended_at = 0 AND organisation_id IN
			(SELECT id FROM organisations WHERE id = ? OR name = ? AND ended_at = 0)`, name, organisation, organisation)
	} else {
		w.Add("(id = ? OR name = ? AND ended_at = 0)", ref, ref)
	}
	w.Equal("organisation_id", within.OrganisationID)
	w.Equal("id", within.ProjectID)
	found, err := sqlkit.Collect(ctx, db.reader(), scanProject,
		`SELECT `+projectColumns+` FROM projects`+w.String()+` ORDER BY id`+w.Limit(2), w.Args...)
	switch {
	case err != nil:
		return p, err
	case len(found) == 0:
		return p, projectNotFound(ref)
	case len(found) > 1:
		return p, broker.Errorf(broker.Refused, "ambiguous_project", "%q matches projects of several organisations (use ORGANISATION/NAME, or an id)",
			taskcatalog.Clean(ref, 130))
	}
	return found[0], nil
}

func projectNotFound(ref string) error {
	return broker.Errorf(broker.NotFound, "project_not_found", "there is no project %q (see hostler project list)", taskcatalog.Clean(ref, 130))
}

// Projects returns a page of projects, and the cursor of the next page.
func (db *DB) Projects(ctx context.Context, p TenantPage) ([]broker.Project, string, error) {
	return pageOf(ctx, db, scanProject, func(p broker.Project) string { return p.ID },
		`SELECT `+projectColumns+` FROM projects`, p.where("organisation_id", "id"), p.Limit)
}

// liveProject locks a project against its end until the transaction ends. Codes: project_not_found,
// project_ended.
func (t *tx) liveProject(ctx context.Context, id, lock string) (broker.Project, error) {
	p, err := scanProject(t.QueryRowContext(ctx, `SELECT `+projectColumns+` FROM projects WHERE id = $1`+lock, id))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return p, projectNotFound(id)
	case err == nil && !p.EndedAt.IsZero():
		return p, broker.Errorf(broker.Refused, "project_ended", "cannot change project %s: it has ended", p.Name)
	}
	return p, err
}

// CreateProject stores a new project of a live organisation. Codes: organisation_not_found,
// organisation_ended, project_exists, project_limit.
func (db *DB) CreateProject(ctx context.Context, actor broker.Actor, p broker.Project) (made broker.Project, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		o, err := t.liveOrganisation(ctx, p.OrganisationID, t.ForUpdate()) // one after another, so that the count holds
		if err != nil {
			return err
		}
		var live int
		if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM projects WHERE organisation_id = $1 AND ended_at = 0`, o.ID).Scan(&live); err != nil {
			return err
		}
		if live >= maxProjects {
			return broker.Errorf(broker.Refused, "project_limit", "cannot create project %s: organisation %s has %d projects (end one first)",
				p.Name, o.Name, live)
		}
		n, err := sqlkit.Changed(t.ExecContext(ctx, `INSERT INTO projects (id, organisation_id, name, created_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT DO NOTHING`, p.ID, o.ID, p.Name, sqlkit.Micros(t.now)))
		if err != nil {
			return err
		}
		if n == 0 {
			return broker.Errorf(broker.Refused, "project_exists",
				"cannot create project %s: a live project of organisation %s has that name (choose another name)", p.Name, o.Name)
		}
		made = broker.Project{ID: p.ID, OrganisationID: o.ID, Name: p.Name, CreatedAt: t.now}
		made.Placement.NodeLabels = map[string]string{}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "project.create", Subject: "project/" + p.ID,
			After: small("name", p.Name, "organisation_id", o.ID),
		})
	})
	return made, err
}

// SetPlacement stores which nodes a live project is given, by a change of what is stored. Codes:
// project_not_found, project_ended, and those of the change.
func (db *DB) SetPlacement(
	ctx context.Context, actor broker.Actor, id, reason string, change func(*broker.ProjectPlacement) error,
) (p broker.Project, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		if p, err = t.liveProject(ctx, id, t.ForUpdate()); err != nil {
			return err
		}
		before := placementAudit(p)
		if err := change(&p.Placement); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `UPDATE projects SET placement_order = $1, node_labels = $2 WHERE id = $3`,
			string(p.Placement.Order), sqlkit.JSON(p.Placement.NodeLabels), p.ID); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "project.update", Subject: "project/" + p.ID, Reason: reason, Before: before, After: placementAudit(p),
		})
	})
	return p, err
}

func placementAudit(p broker.Project) json.RawMessage {
	return small("placement_order", p.Placement.Order, "node_labels", p.Placement.NodeLabels)
}

// SetBindings stores which operations run by themselves on the allocations of a live project, by a change of
// what is stored. Codes: project_not_found, project_ended.
func (db *DB) SetBindings(
	ctx context.Context, actor broker.Actor, id, reason string, change func(*broker.OperationBindings),
) (p broker.Project, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		if p, err = t.liveProject(ctx, id, t.ForUpdate()); err != nil {
			return err
		}
		e := broker.AuditEntry{Actor: actor.Name, Action: "project.bind", Subject: "project/" + p.ID, Reason: reason}
		e.Before = small("bindings", p.Bindings)
		change(&p.Bindings)
		if _, err := t.ExecContext(ctx, `UPDATE projects SET bindings = $1 WHERE id = $2`, sqlkit.JSON(p.Bindings), p.ID); err != nil {
			return err
		}
		e.After = small("bindings", p.Bindings)
		return t.audit(ctx, e)
	})
	return p, err
}

// EndProject ends a project without live members and without allocations that have not ended, with its
// reservations. Ending it again changes nothing. Codes: project_not_found, project_in_use.
func (db *DB) EndProject(ctx context.Context, actor broker.Actor, id, reason string) (p broker.Project, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		p, err = t.liveProject(ctx, id, t.ForUpdate())
		if err != nil {
			if !p.EndedAt.IsZero() {
				return nil
			}
			return err
		}
		var members int
		if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM members WHERE project_id = $1 AND ended_at = 0`, id).Scan(&members); err != nil {
			return err
		}
		e := broker.AuditEntry{Actor: actor.Name, Action: "project.end", Subject: "project/" + id, Before: small("name", p.Name)}
		var held int
		if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM tenant_allocations WHERE project_id = $1
			AND status NOT IN ('released', 'failed')`, id).Scan(&held); err != nil {
			return err
		}
		if members+held > 0 {
			return refuse(broker.Errorf(broker.Refused, "project_in_use",
				"cannot end project %s: live members: %d, allocations that have not ended: %d (end those first)", p.Name, members, held), e)
		}
		p.EndedAt, e.Reason = t.now, reason
		if err := t.endReservationsOf(ctx, actor, id, reason); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `UPDATE projects SET ended_at = $1 WHERE id = $2`, sqlkit.Micros(t.now), id); err != nil {
			return err
		}
		return t.audit(ctx, e)
	})
	return p, err
}

// OrganisationsOf returns the organisations of projects. An id of no project has none.
func (db *DB) OrganisationsOf(ctx context.Context, projectIDs []string) ([]string, error) {
	if len(projectIDs) == 0 {
		return nil, nil
	}
	var w sqlkit.Where
	sqlkit.In(&w, "id", projectIDs)
	return sqlkit.Collect(ctx, db.reader(), scanText, `SELECT DISTINCT organisation_id FROM projects`+w.String()+` ORDER BY organisation_id`, w.Args...)
}
