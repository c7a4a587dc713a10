package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
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
	Most      int    // allocations that UsageTotals reads; 0: 200000
}

// mostUsed is the number of allocations that UsageTotals reads at most.
const mostUsed = 200_000

func scanUsage(row sqlkit.Row) (u broker.Usage, err error) {
	err = row.Scan(&u.AllocationID, &u.ProjectID, &u.SKU, &u.Site, &u.Nodes, &u.GPUs, sqlkit.ScanMicros(&u.From), sqlkit.ScanMicros(&u.To))
	return u, err
}

const usageColumns = `s.allocation_id AS allocation_id, s.project_id AS project_id, s.sku AS sku, s.site AS site, s.nodes AS nodes, s.gpus AS gpus,
	s.from_at AS from_at`

// The usage with a part in a period is of three kinds, and no allocation is of two. Each kind is read by an
// index of its rows, so that the usage of earlier periods is not read. SQLite keeps the order of a CROSS JOIN.
const (
	// begunWithin began within the period.
	begunWithin = `SELECT ` + usageColumns + `, COALESCE(e.to_at, 0) AS to_at FROM usage_spans s LEFT JOIN usage_ends e ON e.allocation_id = s.allocation_id`
	// begunBefore began before the period, and has ended since the period began.
	begunBefore = `SELECT ` + usageColumns + `, e.to_at AS to_at FROM usage_ends e CROSS JOIN usage_spans s`
	// begunBeforeInUse began before the period, and is in use: its allocation is active. The transaction that ends
	// the status ends the usage.
	begunBeforeInUse = `SELECT ` + usageColumns + `, 0 AS to_at FROM tenant_allocations a CROSS JOIN usage_spans s`
)

// within adds the selection of what began within the period.
func (f UsageFilter) within(w *sqlkit.Where) {
	f.of(w)
	w.Add("s.from_at >= ?", sqlkit.Micros(f.From))
	w.Add("s.from_at < ?", sqlkit.Micros(f.To))
	w.Add("(e.to_at IS NULL OR e.to_at > ?)", sqlkit.Micros(f.From))
}

func (f UsageFilter) of(w *sqlkit.Where) {
	w.Equal("s.project_id", f.ProjectID)
	sqlkit.In(w, "s.site", f.Sites)
}

// before is the query of what began before the period, with the arguments of args before its own.
func (f UsageFilter) before(args ...any) (query string, all []any) {
	ended := sqlkit.Where{Args: args, Terms: []string{"s.allocation_id = e.allocation_id"}}
	ended.Add("e.to_at > ?", sqlkit.Micros(f.From))
	ended.Add("s.from_at < ?", sqlkit.Micros(f.From))
	f.of(&ended)
	inUse := sqlkit.Where{Args: ended.Args, Terms: []string{
		"a.status NOT IN ('released', 'failed')", "a.status = 'active'", // the first has the words of the index
		"s.allocation_id = a.id", "NOT EXISTS (SELECT 1 FROM usage_ends e WHERE e.allocation_id = s.allocation_id)",
	}}
	inUse.Add("s.from_at < ?", sqlkit.Micros(f.From))
	f.of(&inUse)
	return begunBefore + ended.String() + ` UNION ALL ` + begunBeforeInUse + inUse.String(), inUse.Args
}

// Usage returns a page of usage, oldest first, and the cursor of the next page ("" at the end).
func (db *DB) Usage(ctx context.Context, f UsageFilter) (page []broker.Usage, next string, err error) {
	after, known, err := db.usageCursor(ctx, f)
	if err != nil || !known {
		return nil, "", err
	}
	limit := cmp.Or(f.Limit, 100)
	if after < sqlkit.Micros(f.From) { // such usage covers the begin of the period: it is no more than the nodes of then
		query, args := f.before()
		page, err = db.usagePage(ctx, `SELECT * FROM (`+query+`) AS u`, "", sqlkit.Where{Args: args}, f, after, limit+1)
		if err != nil {
			return nil, "", err
		}
	}
	if len(page) <= limit {
		var w sqlkit.Where
		f.within(&w)
		more, err := db.usagePage(ctx, begunWithin, "s.", w, f, after, limit+1-len(page))
		if err != nil {
			return nil, "", err
		}
		page = append(page, more...)
	}
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].AllocationID
	}
	return page, next, nil
}

// usagePage returns rows of a query in order, after the cursor. The columns of the query have a prefix.
func (db *DB) usagePage(
	ctx context.Context, query, prefix string, w sqlkit.Where, f UsageFilter, after int64, limit int,
) ([]broker.Usage, error) {
	if f.After != "" {
		w.Add("("+prefix+"from_at, "+prefix+"allocation_id) > (?, ?)", after, f.After)
	}
	tail := w.Limit(limit) // adds an argument to w
	return sqlkit.Collect(ctx, db.reader(), scanUsage, query+w.String()+` ORDER BY `+prefix+`from_at, `+prefix+`allocation_id`+tail, w.Args...)
}

// usageCursor returns when the usage of the cursor began; before everything without a cursor. A project learns
// nothing from the id of another project's allocation: known is false.
func (db *DB) usageCursor(ctx context.Context, f UsageFilter) (began int64, known bool, err error) {
	if f.After == "" {
		return math.MinInt64, true, nil
	}
	var w sqlkit.Where
	w.Add("allocation_id = ?", f.After)
	w.Equal("project_id", f.ProjectID)
	err = db.reader().QueryRowContext(ctx, `SELECT from_at FROM usage_spans`+w.String(), w.Args...).Scan(&began)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return began, err == nil, err
}

// UsageTotals returns the sums over a period by project and SKU. The page of f does not count. Code:
// usage_too_large, for more allocations than are read.
func (db *DB) UsageTotals(ctx context.Context, f UsageFilter) ([]broker.UsageTotal, error) {
	query, args := f.before(sqlkit.Micros(f.From), sqlkit.Micros(f.To))
	w := sqlkit.Where{Args: args}
	f.within(&w)
	most := cmp.Or(f.Most, mostUsed)
	where := w.String()
	tail := w.Limit(most + 1) // adds an argument to w
	// The selection leaves no row whose end is before its start.
	const length = `(CASE WHEN to_at > 0 AND to_at < $2 THEN to_at ELSE $2 END - CASE WHEN from_at > $1 THEN from_at ELSE $1 END)`
	all, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (t broker.UsageTotal, err error) {
		return t, row.Scan(&t.ProjectID, &t.SKU, &t.NodeMicros, &t.GPUMicros, &t.Allocations, &t.InUse)
	}, `SELECT project_id, sku, CAST(SUM(`+length+` * nodes) AS BIGINT), CAST(SUM(`+length+` * gpus) AS BIGINT), COUNT(*),
		SUM(CASE WHEN to_at = 0 THEN 1 ELSE 0 END) FROM (`+query+` UNION ALL `+begunWithin+where+tail+`) AS u GROUP BY project_id, sku ORDER BY project_id, sku`,
		w.Args...)
	read := 0
	for _, t := range all {
		read += int(t.Allocations)
	}
	if read > most {
		return nil, broker.Errorf(broker.Invalid, "usage_too_large",
			"cannot add up the usage from %s to %s: it is of more than %d allocations (name a shorter period, a project or a site)",
			f.From.Format(time.RFC3339), f.To.Format(time.RFC3339), most)
	}
	return all, err
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
	all, err := sqlkit.Collect(ctx, t, scanUsage, begunWithin+` WHERE s.allocation_id = $1 AND e.to_at IS NULL`, a.ID)
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
