package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// saveStatement keeps the statement of the present attempt, and the receipt of a tenant's operation.
func (t *tx) saveStatement(ctx context.Context, o broker.Operation, file, receipt []byte) error {
	if len(file) == 0 || o.ProjectID != "" && len(receipt) == 0 {
		return fmt.Errorf("operation %s ends without a statement or a receipt", o.ID)
	}
	_, err := t.ExecContext(ctx, `INSERT INTO operation_statements (operation_id, attempt, file, receipt, issued_at) VALUES ($1, $2, $3, $4, $5)`,
		o.ID, o.Attempt, string(file), string(receipt), sqlkit.Micros(t.clock()))
	return err
}

// OperationStatement returns the statement of an attempt of an operation. Code:
// operation_statement_not_found.
func (db *DB) OperationStatement(ctx context.Context, id string, attempt int) ([]byte, error) {
	var file string
	err := db.reader().QueryRowContext(ctx, `SELECT file FROM operation_statements WHERE operation_id = $1 AND attempt = $2`, id, attempt).Scan(&file)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, statementNotFound(id, attempt)
	}
	return []byte(file), err
}

// OperationReceipt returns the tenant's version of the statement of an attempt of a project's operation. Codes:
// operation_statement_not_found, operation_receipt_not_made.
func (db *DB) OperationReceipt(ctx context.Context, projectID, id string, attempt int) ([]byte, error) {
	var file string
	err := db.reader().QueryRowContext(ctx, `SELECT s.receipt FROM operations o JOIN operation_statements s ON s.operation_id = o.id
		WHERE o.id = $1 AND o.project_id = $2 AND s.attempt = $3`, id, projectID, attempt).Scan(&file)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, statementNotFound(id, attempt)
	case err == nil && file == "":
		return nil, broker.Errorf(broker.NotFound, "operation_receipt_not_made",
			"attempt %d of operation %s ended before the broker signed statements for projects, so the project has none (ask the operator for the full statement)",
			attempt, id)
	}
	return []byte(file), err
}

func statementNotFound(id string, attempt int) error {
	return broker.Errorf(broker.NotFound, "operation_statement_not_found",
		"there is no statement of attempt %d of operation %s (an attempt has one when it has ended on its nodes)", attempt, id)
}
