package store

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// deleteOperation deletes an operation with its statements and the rows of its steps.
var deleteOperation = []string{
	`DELETE FROM operation_steps WHERE operation_id = $1`, `DELETE FROM operation_statements WHERE operation_id = $1`,
	`DELETE FROM operations WHERE id = $1`,
}

// DropOperations is DropTasks for operations, with their statements and the rows of their
// steps. An operation stays as long as
// its last run.
func (db *DB) DropOperations(ctx context.Context, h History, after HistoryPage, limit int) (next *HistoryPage, err error) {
	return db.dropOld(ctx, dropped{
		table: "operations", ended: "ended_at", action: "operation.dropped",
		rule: `NOT EXISTS (SELECT 1 FROM chain_runs r WHERE r.id = o.run_id)`,
		with: deleteOperation,
	}, h.Before, after, limit)
}

// DropSurplusOperations deletes ended operations of each project, and of the platform, beyond most, at most limit, and
// returns how many. It takes the oldest of whoever began the most, so that nobody's many operations push out those of
// others. An operation stays until its run has ended.
func (db *DB) DropSurplusOperations(ctx context.Context, most, limit int) (dropped int, err error) {
	type surplus struct {
		project string
		rows    int
	}
	all, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (s surplus, err error) {
		return s, row.Scan(&s.project, &s.rows)
	}, `SELECT project_id, COUNT(*) FROM operations WHERE ended_at > 0 GROUP BY project_id HAVING COUNT(*) > $1 ORDER BY project_id`, most)
	for _, s := range all {
		if err != nil || dropped == limit {
			break
		}
		var n int
		n, err = db.dropOldest(ctx, s.project, most, min(s.rows-most, limit-dropped))
		dropped += n
	}
	return dropped, err
}

// requesterRows is how many ended operations somebody began.
type requesterRows struct {
	by   string
	rows int
}

// spread says how many of n operations are taken of whom: each next one of whoever then has the most. all has the most first.
func spread(all []requesterRows, n int) []requesterRows {
	taken := make([]requesterRows, len(all))
	for i, a := range all {
		taken[i].by = a.by
	}
	for range n {
		most := 0
		for i, a := range all {
			if a.rows-taken[i].rows > all[most].rows-taken[most].rows {
				most = i
			}
		}
		taken[most].rows++
	}
	return taken
}

// dropOldest deletes n operations of a project.
func (db *DB) dropOldest(ctx context.Context, project string, most, n int) (dropped int, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		// n operations are of n people at most.
		all, err := sqlkit.Collect(ctx, t, func(row sqlkit.Row) (r requesterRows, err error) {
			return r, row.Scan(&r.by, &r.rows)
		}, `SELECT requested_by, COUNT(*) FROM operations WHERE project_id = $1 AND ended_at > 0 GROUP BY requested_by
			ORDER BY COUNT(*) DESC, requested_by LIMIT $2`, project, n)
		if err != nil || len(all) == 0 {
			return err
		}
		dropped = 0
		for _, r := range spread(all, n) {
			of, err := t.dropOldestOf(ctx, project, r)
			if err != nil {
				return err
			}
			dropped += of
		}
		if dropped == 0 {
			return nil
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: broker.System.Name, Action: "operation.dropped", Subject: "operations",
			After: small("operations", dropped, "project", project, "more_than", most),
		})
	})
	return dropped, err
}

// dropOldestOf deletes operations that somebody began in a project.
func (t *tx) dropOldestOf(ctx context.Context, project string, r requesterRows) (dropped int, err error) {
	if r.rows == 0 {
		return 0, nil
	}
	ids, err := sqlkit.Collect(ctx, t, scanText, `SELECT o.id FROM operations o WHERE o.project_id = $1 AND o.requested_by = $2
		AND o.ended_at > 0 AND NOT EXISTS (SELECT 1 FROM chain_runs r WHERE r.id = o.run_id AND r.completed_at = 0)
		ORDER BY o.requested_at, o.id LIMIT $3`+t.ForUpdate(), project, r.by, r.rows)
	for _, id := range ids {
		for _, statement := range deleteOperation {
			if err != nil {
				return 0, err
			}
			_, err = t.ExecContext(ctx, statement, id)
		}
	}
	return len(ids), err
}
