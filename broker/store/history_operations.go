package store

import "context"

// DropOperations is DropTasks for operations, with their statements and the rows of their
// steps. An operation stays as long as
// its last run.
func (db *DB) DropOperations(ctx context.Context, h History, after HistoryPage, limit int) (next *HistoryPage, err error) {
	return db.dropOld(ctx, dropped{
		table: "operations", ended: "ended_at", action: "operation.dropped",
		rule: `NOT EXISTS (SELECT 1 FROM chain_runs r WHERE r.id = o.run_id)`,
		with: []string{
			`DELETE FROM operation_steps WHERE operation_id = $1`, `DELETE FROM operation_statements WHERE operation_id = $1`,
			`DELETE FROM operations WHERE id = $1`,
		},
	}, h.Before, after, limit)
}
