package store

import (
	"cmp"
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// Types of events about usage.
const (
	UsageStartedEvent = "allocation.usage.started"
	UsageEndedEvent   = "allocation.usage.ended"
)

// UsageFilter selects usage with a part in a period; an empty field adds no condition. To is the
// present time or before: what is in use at To counts until To.
type UsageFilter struct {
	ProjectID string
	Sites     []string // nil: all
	From, To  time.Time
	After     string // cursor: the allocation of the last row of the previous page
	Limit     int    // 0: 100
}

const usageFrom = ` FROM usage_spans s LEFT JOIN usage_ends e ON e.allocation_id = s.allocation_id`

func scanUsage(row sqlkit.Row) (u broker.Usage, err error) {
	err = row.Scan(&u.AllocationID, &u.ProjectID, &u.SKU, &u.Site, &u.Nodes, &u.GPUs, sqlkit.ScanMicros(&u.From), sqlkit.ScanMicros(&u.To))
	return u, err
}

// where has the selection; first are arguments that the caller's columns use.
func (f UsageFilter) where(first ...any) sqlkit.Where {
	w := sqlkit.Where{Args: first}
	w.Equal("s.project_id", f.ProjectID)
	sqlkit.In(&w, "s.site", f.Sites)
	w.Add("s.from_at < ?", sqlkit.Micros(f.To))
	w.Add("(e.to_at IS NULL OR e.to_at > ?)", sqlkit.Micros(f.From))
	return w
}

// Usage returns a page of usage, oldest first, and the cursor of the next page ("" at the end).
func (db *DB) Usage(ctx context.Context, f UsageFilter) (page []broker.Usage, next string, err error) {
	w := f.where()
	if f.After != "" {
		last, args := "allocation_id = ?", []any{f.After}
		if f.ProjectID != "" { // a project learns nothing from the id of another project's allocation
			last, args = last+" AND project_id = ?", append(args, f.ProjectID)
		}
		w.Add("(s.from_at, s.allocation_id) > (SELECT from_at, allocation_id FROM usage_spans WHERE "+last+")", args...)
	}
	limit := cmp.Or(f.Limit, 100)
	tail := w.Limit(limit + 1) // adds an argument to w
	page, err = sqlkit.Collect(ctx, db.reader(), scanUsage,
		`SELECT s.allocation_id, s.project_id, s.sku, s.site, s.nodes, s.gpus, s.from_at, COALESCE(e.to_at, 0)`+usageFrom+w.String()+
			` ORDER BY s.from_at, s.allocation_id`+tail, w.Args...)
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].AllocationID
	}
	return page, next, err
}

// UsageTotals returns the sums over a period by project and SKU. The page of f does not count.
func (db *DB) UsageTotals(ctx context.Context, f UsageFilter) ([]broker.UsageTotal, error) {
	w := f.where(sqlkit.Micros(f.From), sqlkit.Micros(f.To))
	// The selection leaves no row whose end is before its start.
	length := `(CASE WHEN e.to_at < $2 THEN e.to_at ELSE $2 END - CASE WHEN s.from_at > $1 THEN s.from_at ELSE $1 END)`
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (t broker.UsageTotal, err error) {
		return t, row.Scan(&t.ProjectID, &t.SKU, &t.NodeMicros, &t.GPUMicros, &t.Allocations, &t.InUse)
	}, `SELECT s.project_id, s.sku, CAST(SUM(`+length+` * s.nodes) AS BIGINT), CAST(SUM(`+length+` * s.gpus) AS BIGINT), COUNT(*),
		SUM(CASE WHEN e.to_at IS NULL THEN 1 ELSE 0 END)`+usageFrom+w.String()+` GROUP BY s.project_id, s.sku ORDER BY s.project_id, s.sku`,
		w.Args...)
}

// meter begins and ends the billing of an allocation that changed its status.
func (t *tx) meter(ctx context.Context, a broker.Allocation, was broker.AllocationStatus, correlationID string) error {
	switch {
	case a.Status == broker.AllocationActive:
		return t.openUsage(ctx, a, correlationID)
	case was == broker.AllocationActive:
		return t.closeUsage(ctx, a, correlationID)
	}
	return nil
}

// openUsage begins the billing of an allocation that has become active.
func (t *tx) openUsage(ctx context.Context, a broker.Allocation, correlationID string) error {
	s, err := sku(ctx, t, a.SKU, "")
	if err != nil {
		return err
	}
	u := broker.Usage{
		AllocationID: a.ID, ProjectID: a.ProjectID, SKU: a.SKU, Site: a.Site, Nodes: a.Nodes, GPUs: a.GPUs, From: a.ActiveAt,
	}
	if a.Nodes > 0 {
		u.GPUs = a.Nodes * s.GPUCount
	}
	rows, err := sqlkit.Changed(t.ExecContext(ctx, `INSERT INTO usage_spans (allocation_id, project_id, sku, site, nodes, gpus, from_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (allocation_id) DO NOTHING`,
		u.AllocationID, u.ProjectID, u.SKU, u.Site, u.Nodes, u.GPUs, sqlkit.Micros(u.From)))
	if err != nil || rows == 0 {
		return err
	}
	return t.tellUsage(ctx, UsageStartedEvent, u, correlationID)
}

// closeUsage ends the billing of an allocation that is no longer active. A clock that was set back
// bills nothing. Without an open usage, as of an allocation of an earlier release, nothing changes.
func (t *tx) closeUsage(ctx context.Context, a broker.Allocation, correlationID string) error {
	all, err := sqlkit.Collect(ctx, t, scanUsage, `SELECT s.allocation_id, s.project_id, s.sku, s.site, s.nodes, s.gpus, s.from_at, 0`+
		usageFrom+` WHERE s.allocation_id = $1 AND e.to_at IS NULL`, a.ID)
	if err != nil || len(all) == 0 {
		return err
	}
	u := all[0]
	if u.To = a.ReleasingAt; u.To.Before(u.From) {
		u.To = u.From
	}
	rows, err := sqlkit.Changed(t.ExecContext(ctx, `INSERT INTO usage_ends (allocation_id, to_at) VALUES ($1, $2)
		ON CONFLICT (allocation_id) DO NOTHING`, u.AllocationID, sqlkit.Micros(u.To)))
	if err != nil || rows == 0 {
		return err
	}
	return t.tellUsage(ctx, UsageEndedEvent, u, correlationID)
}

func (t *tx) tellUsage(ctx context.Context, typ string, u broker.Usage, correlationID string) error {
	data := map[string]any{
		"allocation_id": u.AllocationID, "project_id": u.ProjectID, "sku": u.SKU, "site": u.Site, "nodes": u.Nodes, "gpus": u.GPUs,
		"from": u.From.UTC().Format(time.RFC3339Nano), "to": "",
	}
	if !u.To.IsZero() {
		data["to"] = u.To.UTC().Format(time.RFC3339Nano)
	}
	return t.send(ctx, told{
		Site: u.Site, CorrelationID: correlationID, Message: chain.Message{Type: typ, Subject: "allocation/" + u.AllocationID, Data: data},
	})
}
