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

// DropSurplusOperations deletes the oldest ended operations of each project, and of the platform, beyond the
// newest most, at most limit, and returns how many. An operation stays until its run has ended.
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

// dropOldest deletes n operations of a project.
func (db *DB) dropOldest(ctx context.Context, project string, most, n int) (dropped int, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		ids, err := sqlkit.Collect(ctx, t, scanText, `SELECT o.id FROM operations o WHERE o.project_id = $1 AND o.ended_at > 0
			AND NOT EXISTS (SELECT 1 FROM chain_runs r WHERE r.id = o.run_id AND r.completed_at = 0)
			ORDER BY o.requested_at, o.id LIMIT $2`+t.ForUpdate(), project, n)
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			for _, statement := range deleteOperation {
				if _, err := t.ExecContext(ctx, statement, id); err != nil {
					return err
				}
			}
		}
		dropped = len(ids)
		return t.audit(ctx, broker.AuditEntry{
			Actor: broker.System.Name, Action: "operation.dropped", Subject: "operations",
			After: small("operations", len(ids), "project", project, "more_than", most),
		})
	})
	return dropped, err
}
