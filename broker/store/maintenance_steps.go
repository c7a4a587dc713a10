package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// Events about maintenances.
const (
	MaintenancePlannedEvent   = "node.maintenance.planned"
	MaintenanceOpenedEvent    = "node.maintenance.opened"
	MaintenanceClosedEvent    = "node.maintenance.closed"
	MaintenanceFailedEvent    = "node.maintenance.check_failed"
	MaintenanceOverdueEvent   = "node.maintenance.overdue"
	MaintenanceCancelledEvent = "node.maintenance.cancelled"
	MaintenanceMissedEvent    = "node.maintenance.missed"

	TenantMaintenancePlannedEvent   = "provisioning.maintenance.planned"
	TenantMaintenanceSoonEvent      = "provisioning.maintenance.soon"
	TenantMaintenanceOpenedEvent    = "provisioning.maintenance.opened"
	TenantMaintenanceClosedEvent    = "provisioning.maintenance.closed"
	TenantMaintenanceCancelledEvent = "provisioning.maintenance.cancelled"
)

// tenantsWord is what the tenant is told beside each event.
var tenantsWord = map[string]string{
	MaintenancePlannedEvent: TenantMaintenancePlannedEvent, MaintenanceOpenedEvent: TenantMaintenanceOpenedEvent,
	MaintenanceClosedEvent: TenantMaintenanceClosedEvent, MaintenanceCancelledEvent: TenantMaintenanceCancelledEvent,
	MaintenanceMissedEvent: TenantMaintenanceCancelledEvent,
}

// tellMaintenance announces what became of a maintenance of a locked node, to the tenant, too, if there is one.
func (t *tx) tellMaintenance(ctx context.Context, n broker.Node, m broker.Maintenance, typ, by string) error {
	t.hint(HintNode, n.ID)
	if err := t.send(ctx, told{
		Site: n.Site, CorrelationID: m.ID,
		Message: chain.Message{Type: typ, Subject: "node/" + n.ID, Data: map[string]any{
			"node_id": n.ID, "hostname": n.Hostname, "site": n.Site, "maintenance_id": m.ID, "status": m.Status, "category": m.Category,
			"tenant": m.Tenant, "ticket": m.Ticket, "from": reachedText(m.From), "until": maybeText(m.Until), "because": m.Because, "by": by,
		}},
	}); err != nil {
		return err
	}
	if word := tenantsWord[typ]; word != "" {
		return t.tellTenant(ctx, n, m, word)
	}
	return nil
}

// tellTenant tells the project whose allocation has a node of its maintenance. The event names no node, ticket or
// person: projects read it.
func (t *tx) tellTenant(ctx context.Context, n broker.Node, m broker.Maintenance, typ string) error {
	a, err := liveClaim(ctx, t, n.ID)
	if err != nil || a.ID == "" {
		return err
	}
	return t.send(ctx, told{
		Site: n.Site, CorrelationID: a.ID,
		Message: chain.Message{Type: typ, Subject: "allocation/" + a.ID, Data: map[string]any{
			"allocation_id": a.ID, "project_id": a.ProjectID, "maintenance_id": m.ID, "tenant": m.Tenant, "site": n.Site,
			"from": reachedText(m.From), "until": maybeText(m.Until),
		}},
	})
}

// DueMaintenances returns the ids of maintenances that may have a step due by date. Those that were not tried yet come
// first, so that many that cannot be closed keep no other one back. One that waits for another maintenance of its node is
// left out.
func (db *DB) DueMaintenances(ctx context.Context, most int) ([]string, error) {
	now := db.Now()
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (id string, err error) { return id, row.Scan(&id) },
		`SELECT id FROM maintenances WHERE status IN ('planned', 'open') AND (
			status = 'planned' AND (until_at <= $1 OR reminded_at = 0 AND from_at > $1 AND from_at <= $2 OR
				from_at <= $1 AND (because = '' OR NOT EXISTS (SELECT 1 FROM maintenances o WHERE o.node_id = maintenances.node_id AND o.status = 'open'))) OR
			status = 'open' AND until_at > 0 AND until_at <= $1 AND (overdue_at = 0 OR planned AND closing_at <= $3))
			ORDER BY closing_at, from_at, id LIMIT $4`,
		sqlkit.Micros(now), sqlkit.Micros(now.Add(broker.MaintenanceLead)), sqlkit.Micros(now.Add(-broker.MaintenanceRetry)), most)
}

// StepMaintenance takes the step that is due for a maintenance by date. Nothing due is no error.
func (db *DB) StepMaintenance(ctx context.Context, actor broker.Actor, id string) (step broker.MaintenanceStep, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		m, n, err := t.lockMaintenance(ctx, id)
		if err != nil {
			return err
		}
		now := t.clock().UTC().Truncate(time.Microsecond)
		switch step = m.Due(now); step {
		case broker.MaintenanceBegins:
			return t.beginMaintenance(ctx, actor, n, m, now)
		case broker.MaintenanceMisses:
			m.Because = "its whole time passed before it could begin"
			return t.endMaintenance(ctx, actor, n, m, broker.MaintenanceMissed, now)
		case broker.MaintenanceReminds:
			m.RemindedAt = now
			if err := t.saveMaintenance(ctx, m); err != nil {
				return err
			}
			return t.tellTenant(ctx, n, m, TenantMaintenanceSoonEvent)
		case broker.MaintenanceEnds:
			if n.Status == broker.Deleted {
				m.Because = "its node was deleted"
				return t.endMaintenance(ctx, actor, n, m, broker.MaintenanceClosed, now)
			}
			return t.checkMaintenance(ctx, actor, n, m, "its planned end has come", now)
		case broker.MaintenanceOverdue:
			m.OverdueAt = now
			if err := t.saveMaintenance(ctx, m); err != nil {
				return err
			}
			return t.tellMaintenance(ctx, n, m, MaintenanceOverdueEvent, actor.Name)
		}
		return nil
	})
	return step, err
}

// beginMaintenance opens a planned maintenance. If the node is in another one, the plan waits and says so.
func (t *tx) beginMaintenance(ctx context.Context, actor broker.Actor, n broker.Node, m broker.Maintenance, now time.Time) error {
	if n.Status == broker.Deleted {
		m.Because = "its node was deleted"
		return t.endMaintenance(ctx, actor, n, m, broker.MaintenanceCancelled, now)
	}
	var other string
	err := t.QueryRowContext(ctx, `SELECT id FROM maintenances WHERE node_id = $1 AND status = 'open'`, n.ID).Scan(&other)
	if err == nil {
		because := "it waits until maintenance " + other + " is closed"
		if m.Because == because {
			return nil
		}
		m.Because = because
		return t.saveMaintenance(ctx, m)
	} else if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err := broker.TransitionMaintenance(m, broker.MaintenanceOpen); err != nil {
		return err
	}
	e := entry(actor, "maintenance.open", n.ID)
	e.Before = small("maintenance", m.ID, "status", m.Status)
	m.Status, m.OpenedAt, m.Because = broker.MaintenanceOpen, now, ""
	if err := t.saveMaintenance(ctx, m); err != nil {
		return err
	}
	if err := t.tellMaintenance(ctx, n, m, MaintenanceOpenedEvent, actor.Name); err != nil {
		return err
	}
	e.Reason, e.After = m.Reason, small("maintenance", m.ID, "status", m.Status)
	return t.audit(ctx, e)
}

// endMaintenance ends a maintenance for good.
func (t *tx) endMaintenance(
	ctx context.Context, actor broker.Actor, n broker.Node, m broker.Maintenance, to broker.MaintenanceStatus, now time.Time,
) error {
	if err := broker.TransitionMaintenance(m, to); err != nil {
		return err
	}
	e := entry(actor, "maintenance.close", n.ID)
	e.Before = small("maintenance", m.ID, "status", m.Status)
	m.Status, m.ClosedAt, m.ClosedBy = to, now, actor.Name
	if err := t.saveMaintenance(ctx, m); err != nil {
		return err
	}
	typ := map[broker.MaintenanceStatus]string{
		broker.MaintenanceClosed: MaintenanceClosedEvent, broker.MaintenanceCancelled: MaintenanceCancelledEvent,
		broker.MaintenanceMissed: MaintenanceMissedEvent,
	}[to]
	if err := t.tellMaintenance(ctx, n, m, typ, actor.Name); err != nil {
		return err
	}
	e.Reason, e.After = m.Because, small("maintenance", m.ID, "status", m.Status, "checks", m.Checks)
	return t.audit(ctx, e)
}

// checkMaintenance closes an open maintenance whose checks are passed. Otherwise it stays open, and says why.
func (t *tx) checkMaintenance(
	ctx context.Context, actor broker.Actor, n broker.Node, m broker.Maintenance, reason string, now time.Time,
) error {
	h, err := t.handout(ctx, n, now)
	if err != nil {
		return err
	}
	m.ClosingAt, m.ClosingBy, m.Checks = now, actor.Name, m.ChecksOf(h)
	failed := m.Checks.Failed()
	if failed == "" {
		m.Because = reason
		return t.endMaintenance(ctx, actor, n, m, broker.MaintenanceClosed, now)
	}
	again := failed == m.Because && actor.Name == broker.System.Name // a look found what one found before
	m.Because = failed
	if m.Overdue(now) && m.OverdueAt.IsZero() {
		m.OverdueAt = now
		if err := t.tellMaintenance(ctx, n, m, MaintenanceOverdueEvent, actor.Name); err != nil {
			return err
		}
	}
	if err := t.saveMaintenance(ctx, m); err != nil || again {
		return err
	}
	if err := t.tellMaintenance(ctx, n, m, MaintenanceFailedEvent, actor.Name); err != nil {
		return err
	}
	e := entry(actor, "maintenance.check", n.ID)
	e.Reason, e.After = reason, small("maintenance", m.ID, "status", m.Status, "because", failed)
	return t.audit(ctx, e)
}

// maybeText is reachedText, and empty for no time.
func maybeText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return reachedText(at)
}

// LeavingMaintenances returns open maintenances whose tenant has to leave, and whose node an active allocation has.
func (db *DB) LeavingMaintenances(ctx context.Context, most int) ([]broker.Maintenance, error) {
	return sqlkit.Collect(ctx, db.reader(), scanMaintenance, `SELECT `+maintenanceColumns+` FROM maintenances
		WHERE status = 'open' AND tenant = 'leaves' AND EXISTS (SELECT 1 FROM allocation_claims c
			JOIN tenant_allocations a ON a.id = c.allocation_id WHERE c.node_id = maintenances.node_id AND c.ended_at = 0 AND a.status = 'active')
		ORDER BY from_at, id LIMIT $1`, most)
}

// OverdueMaintenances counts, by site (nil: all), the open maintenances whose expected end has passed.
type OverdueMaintenances struct {
	Site         string // empty: none
	Maintenances int
	Since        time.Time // the earliest end
}

// OverdueMaintenances counts the open maintenances whose expected end has passed.
func (db *DB) OverdueMaintenances(ctx context.Context, sites []string) ([]OverdueMaintenances, error) {
	w := sqlkit.Where{Terms: []string{"status = 'open'", "until_at > 0"}}
	w.Add("until_at <= ?", sqlkit.Micros(db.Now()))
	sqlkit.In(&w, "site", sites)
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (o OverdueMaintenances, err error) {
		return o, row.Scan(&o.Site, &o.Maintenances, sqlkit.ScanMicros(&o.Since))
	}, `SELECT site, COUNT(*), MIN(until_at) FROM maintenances`+w.String()+` GROUP BY site ORDER BY site`, w.Args...)
}

// CountMaintenances counts the maintenances that are planned or open, by status.
func (db *DB) CountMaintenances(ctx context.Context) (map[broker.MaintenanceStatus]int, error) {
	counts := map[broker.MaintenanceStatus]int{}
	_, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (none struct{}, err error) {
		var s broker.MaintenanceStatus
		var n int
		err = row.Scan(&s, &n)
		counts[s] = n
		return none, err
	}, `SELECT status, COUNT(*) FROM maintenances WHERE status IN ('planned', 'open') GROUP BY status`)
	return counts, err
}
