package store

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// UnendedOperation is an operation that may still run on a node: the node got its task, and has said no end of it since the
// node's last reimage with a certificate. Empty: none. What was cut off by an enrolment counts, too, and so does whatever
// operation of whatever former allocation.
func (db *DB) UnendedOperation(ctx context.Context, nodeID string) (operationID string, err error) {
	all, err := sqlkit.Collect(ctx, db.reader(), scanTask, `SELECT `+taskColumns+` FROM tasks
		WHERE node_id = $1 AND type = $2 AND attempt > 0 AND outcome = ''
			AND issued_at > COALESCE((SELECT MAX(issued_at) FROM clean_certificates WHERE node_id = $1 AND mode = 'reimage'), 0) ORDER BY id`,
		nodeID, broker.OperationTask)
	for _, k := range all {
		if k.MayRun() {
			return broker.OperationOfRun(k.CorrelationID), err
		}
	}
	return "", err
}

// OperationsOn returns the live operations that have nodes, each once, by id.
func (db *DB) OperationsOn(ctx context.Context, nodeIDs []string) ([]broker.Operation, error) {
	var locks []string
	for _, id := range nodeIDs {
		locks = append(locks, "operation/"+id)
	}
	if len(locks) == 0 {
		return nil, nil
	}
	var w sqlkit.Where
	sqlkit.In(&w, "name", locks)
	return sqlkit.Collect(ctx, db.reader(), scanOperation, `SELECT `+operationInList+` FROM operations WHERE id IN (
		SELECT substr(r.subject, 11) FROM chain_runs r WHERE r.id IN (SELECT run_id FROM chain_locks`+w.String()+`)) AND ended_at = 0 ORDER BY id`,
		w.Args...)
}
