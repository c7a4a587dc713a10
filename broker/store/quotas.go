package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

const quotaColumns = `project_id, sku, nodes, gpus, updated_at`

func scanQuota(row sqlkit.Row) (q broker.Quota, err error) {
	err = row.Scan(&q.ProjectID, &q.SKU, &q.Nodes, &q.GPUs, sqlkit.ScanMicros(&q.UpdatedAt))
	return q, err
}

// Quotas returns a page of a project's quotas, ordered by SKU, and the cursor of the next page.
func (db *DB) Quotas(ctx context.Context, projectID, after string, limit int) (page []broker.Quota, next string, err error) {
	var w sqlkit.Where
	w.Add("project_id = ?", projectID)
	w.Add("sku > ?", after)
	page, err = sqlkit.Collect(ctx, db.reader(), scanQuota,
		`SELECT `+quotaColumns+` FROM quotas`+w.String()+` ORDER BY sku`+w.Limit(limit+1), w.Args...)
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].SKU
	}
	return page, next, err
}

// SetQuota stores the quota of a live project for a SKU. Codes: project_not_found, project_ended,
// sku_not_found.
func (db *DB) SetQuota(ctx context.Context, actor broker.Actor, q broker.Quota, reason string) (kept broker.Quota, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		// The project is locked, as a quota that is set for the first time has no row to lock.
		p, err := t.liveProject(ctx, q.ProjectID, t.ForUpdate())
		if err != nil {
			return err
		}
		if _, err := sku(ctx, t, q.SKU, t.ForKeyShare()); err != nil {
			return err
		}
		e := broker.AuditEntry{
			Actor: actor.Name, Action: "quota.set", Subject: "project/" + p.ID, Reason: reason,
			After: small("sku", q.SKU, "nodes", q.Nodes, "gpus", q.GPUs),
		}
		before, err := scanQuota(t.QueryRowContext(ctx,
			`SELECT `+quotaColumns+` FROM quotas WHERE project_id = $1 AND sku = $2`+t.ForUpdate(), p.ID, q.SKU))
		switch {
		case err == nil:
			e.Before = small("sku", q.SKU, "nodes", before.Nodes, "gpus", before.GPUs)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		if kept, err = scanQuota(t.QueryRowContext(ctx,
			`INSERT INTO quotas (project_id, sku, nodes, gpus, updated_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (project_id, sku) DO UPDATE SET nodes = excluded.nodes, gpus = excluded.gpus, updated_at = excluded.updated_at
			RETURNING `+quotaColumns, p.ID, q.SKU, q.Nodes, q.GPUs, sqlkit.Micros(t.now))); err != nil {
			return err
		}
		return t.audit(ctx, e)
	})
	return kept, err
}

// withinQuota returns the project of a request, and refuses a request beyond its quota. The quota's row is locked, so that
// requests of one project for one SKU are counted one after another. Codes: project_not_found,
// project_ended, quota_exceeded.
func (t *tx) withinQuota(ctx context.Context, projectID string, r broker.AllocationRequest) (p broker.Project, err error) {
	if p, err = t.liveProject(ctx, projectID, t.ForKeyShare()); err != nil {
		return p, err
	}
	q, err := scanQuota(t.QueryRowContext(ctx, `SELECT `+quotaColumns+` FROM quotas WHERE project_id = $1 AND sku = $2`+t.ForUpdate(),
		p.ID, r.SKU))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return p, err
	}
	var nodes, gpus int
	if err := t.QueryRowContext(ctx, `SELECT COALESCE(SUM(nodes), 0), COALESCE(SUM(gpus), 0) FROM tenant_allocations
		WHERE project_id = $1 AND sku = $2 AND status NOT IN ('released', 'failed')`, p.ID, r.SKU).Scan(&nodes, &gpus); err != nil {
		return p, err
	}
	if nodes+r.Nodes > q.Nodes || gpus+r.GPUs > q.GPUs {
		return p, broker.Errorf(broker.Refused, "quota_exceeded",
			"cannot allocate %d nodes and %d gpus of SKU %s: project %s holds %d and %d, and its quota is %d and %d (release an allocation, or ask for a larger quota)",
			r.Nodes, r.GPUs, r.SKU, p.Name, nodes, gpus, q.Nodes, q.GPUs)
	}
	return p, nil
}
