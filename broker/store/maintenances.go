package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

const maintenanceColumns = `id, node_id, site, status, category, tenant, planned, ticket, reason, created_by, created_at, from_at, until_at,
	opened_at, closing_at, closing_by, closed_at, closed_by, reminded_at, overdue_at, because, checks`

func scanMaintenance(row sqlkit.Row) (m broker.Maintenance, err error) {
	at := sqlkit.ScanMicros
	err = row.Scan(&m.ID, &m.NodeID, &m.Site, &m.Status, &m.Category, &m.Tenant, &m.Planned, &m.Ticket, &m.Reason, &m.CreatedBy,
		at(&m.CreatedAt), at(&m.From), at(&m.Until), at(&m.OpenedAt), at(&m.ClosingAt), &m.ClosingBy, at(&m.ClosedAt), &m.ClosedBy,
		at(&m.RemindedAt), at(&m.OverdueAt), &m.Because, sqlkit.ScanJSON(&m.Checks))
	return m, err
}

// CreateMaintenance stores a maintenance with its id, node, category, tenant, ticket, reason and times. One that is not
// Planned is open at once. The context's RequestKey is taken with it. Codes: maintenance_invalid,
// maintenance_overlaps, maintenance_limit, node_not_found, node_deleted, idempotency_conflict.
func (db *DB) CreateMaintenance(ctx context.Context, actor broker.Actor, m broker.Maintenance) (made broker.Maintenance, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		made, err = t.createMaintenance(ctx, actor, m)
		return err
	})
	return made, err
}

func (t *tx) createMaintenance(ctx context.Context, actor broker.Actor, m broker.Maintenance) (broker.Maintenance, error) {
	if err := t.takeRequestKey(ctx, m.ID); err != nil {
		return m, err
	}
	n, err := node(ctx, t, m.NodeID, t.ForUpdate()) // a placement holds the row while it judges the node
	if err != nil {
		return m, err
	}
	e := entry(actor, "maintenance.create", n.ID)
	now := t.clock().UTC().Truncate(time.Microsecond)
	m.Site, m.CreatedBy, m.CreatedAt = n.Site, actor.Name, now
	m.From, m.Until = m.From.UTC().Truncate(time.Microsecond), m.Until.UTC().Truncate(time.Microsecond)
	m.Status = broker.MaintenancePlanned
	if !m.Planned || m.From.Before(now) {
		m.From = now
	}
	if !m.Planned {
		m.Status, m.OpenedAt = broker.MaintenanceOpen, now
	}
	if err := t.mayMaintain(ctx, n, m, now); err != nil {
		if no, is := errors.AsType[*broker.Error](err); is {
			return m, refuse(no, e)
		}
		return m, err
	}
	if _, err := t.ExecContext(ctx, `INSERT INTO maintenances (`+maintenanceColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 0, '', 0, '', 0, 0, '', '{}')`,
		m.ID, m.NodeID, m.Site, string(m.Status), string(m.Category), string(m.Tenant), m.Planned, m.Ticket, m.Reason, m.CreatedBy,
		sqlkit.Micros(m.CreatedAt), sqlkit.Micros(m.From), sqlkit.Micros(m.Until), sqlkit.Micros(m.OpenedAt)); err != nil {
		return m, err
	}
	e.Reason = m.Reason
	e.After = small("maintenance", m.ID, "status", m.Status, "category", m.Category, "tenant", m.Tenant, "ticket", m.Ticket,
		"from", reachedText(m.From), "until", maybeText(m.Until))
	typ := MaintenanceOpenedEvent
	if m.Planned {
		typ = MaintenancePlannedEvent
	}
	if err := t.tellMaintenance(ctx, n, m, typ, actor.Name); err != nil {
		return m, err
	}
	return m, t.audit(ctx, e)
}

// mayMaintain refuses a maintenance of a locked node. Codes: as of CreateMaintenance.
func (t *tx) mayMaintain(ctx context.Context, n broker.Node, m broker.Maintenance, now time.Time) error {
	if n.Status == broker.Deleted {
		return nodeDeleted(n)
	}
	if err := m.Check(now); err != nil {
		return err
	}
	others, err := sqlkit.Collect(ctx, t, scanMaintenance, `SELECT `+maintenanceColumns+` FROM maintenances
		WHERE node_id = $1 AND status IN ('planned', 'open') ORDER BY from_at, id`, n.ID)
	if err != nil {
		return err
	}
	for _, o := range others {
		if o.Status.Live() && o.Overdue(now) {
			o.Until = now.Add(time.Microsecond) // it goes on, nobody knows how long
		}
		if !o.Overlaps(m) {
			continue
		}
		until := "without an expected end"
		if !o.Until.IsZero() {
			until = "until " + reachedText(o.Until)
		}
		return broker.Errorf(broker.Refused, "maintenance_overlaps",
			"cannot make a maintenance of node %s from %s on: maintenance %s is %s from %s %s (choose another time, or close that one: hostler maintenance close %s --reason R)",
			n.ID, reachedText(m.From), o.ID, o.Status, reachedText(o.From), until, o.ID)
	}
	if len(others) >= broker.MaxPlannedMaintenances {
		return broker.Errorf(broker.Refused, "maintenance_limit", "cannot make a maintenance of node %s: it has %d that are planned or open (close one first)",
			n.ID, len(others))
	}
	return nil
}

// saveMaintenance writes what changes after the creation.
func (t *tx) saveMaintenance(ctx context.Context, m broker.Maintenance) error {
	us := sqlkit.Micros
	t.hint(HintNode, m.NodeID)
	_, err := t.ExecContext(ctx, `UPDATE maintenances SET status = $1, opened_at = $2, closing_at = $3, closing_by = $4, closed_at = $5, closed_by = $6,
		reminded_at = $7, overdue_at = $8, because = $9, checks = $10 WHERE id = $11`,
		string(m.Status), us(m.OpenedAt), us(m.ClosingAt), m.ClosingBy, us(m.ClosedAt), m.ClosedBy, us(m.RemindedAt), us(m.OverdueAt),
		m.Because, sqlkit.JSON(m.Checks), m.ID)
	return err
}

// lockMaintenance returns a maintenance and its node, both locked, in the order in which all lock them.
func (t *tx) lockMaintenance(ctx context.Context, id string) (m broker.Maintenance, n broker.Node, err error) {
	if m, err = maintenance(ctx, t, id, ""); err != nil {
		return m, n, err
	}
	if n, err = node(ctx, t, m.NodeID, t.ForUpdate()); err != nil {
		return m, n, err
	}
	m, err = maintenance(ctx, t, id, t.ForUpdate())
	return m, n, err
}

func maintenance(ctx context.Context, r sqlkit.Runner, id, lock string) (broker.Maintenance, error) {
	m, err := scanMaintenance(r.QueryRowContext(ctx, `SELECT `+maintenanceColumns+` FROM maintenances WHERE id = $1`+lock, id))
	if errors.Is(err, sql.ErrNoRows) {
		return m, broker.MaintenanceNotFound(id)
	}
	return m, err
}

// Maintenance finds a maintenance by its id. Code: maintenance_not_found.
func (db *DB) Maintenance(ctx context.Context, id string) (broker.Maintenance, error) {
	return maintenance(ctx, db.reader(), id, "")
}

// MaintenanceFilter selects maintenances; an empty field adds no condition.
type MaintenanceFilter struct {
	NodeID   string
	Sites    []string // nil: all
	Statuses []broker.MaintenanceStatus
	Ended    bool   // those that have ended, too; without effect beside Statuses
	After    string // cursor: the id of the last maintenance of the previous page
	Limit    int    // 0: all
}

// Maintenances returns a page, ordered by id, and the cursor of the next page ("" at the end).
func (db *DB) Maintenances(ctx context.Context, f MaintenanceFilter) ([]broker.Maintenance, string, error) {
	var w sqlkit.Where
	w.Equal("node_id", f.NodeID)
	sqlkit.In(&w, "site", f.Sites)
	switch {
	case len(f.Statuses) > 0:
		sqlkit.In(&w, "status", f.Statuses)
	case !f.Ended:
		w.Add("status IN ('planned', 'open')")
	}
	if f.After != "" {
		w.Add("id > ?", f.After)
	}
	return pageOf(ctx, db, scanMaintenance, func(m broker.Maintenance) string { return m.ID },
		`SELECT `+maintenanceColumns+` FROM maintenances`, w, f.Limit)
}

// Hostnames returns the hostnames of nodes, by id.
func (db *DB) Hostnames(ctx context.Context, nodeIDs []string) (map[string]string, error) {
	names := make(map[string]string, len(nodeIDs))
	if len(nodeIDs) == 0 {
		return names, nil
	}
	var w sqlkit.Where
	sqlkit.In(&w, "id", nodeIDs)
	_, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (id string, err error) {
		var name string
		err = row.Scan(&id, &name)
		names[id] = name
		return id, err
	}, `SELECT id, hostname FROM nodes`+w.String(), w.Args...)
	return names, err
}
