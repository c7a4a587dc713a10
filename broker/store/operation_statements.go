package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// saveStatement keeps the statement of the present attempt.
func (t *tx) saveStatement(ctx context.Context, o broker.Operation, file []byte) error {
	if len(file) == 0 {
		return fmt.Errorf("operation %s ends without a statement", o.ID)
	}
	_, err := t.ExecContext(ctx, `INSERT INTO operation_statements (operation_id, attempt, file, issued_at) VALUES ($1, $2, $3, $4)`,
		o.ID, o.Attempt, string(file), sqlkit.Micros(t.clock()))
	return err
}

// OperationStatement returns the statement of an attempt of an operation. Code:
// operation_statement_not_found.
func (db *DB) OperationStatement(ctx context.Context, id string, attempt int) ([]byte, error) {
	var file string
	err := db.reader().QueryRowContext(ctx, `SELECT file FROM operation_statements WHERE operation_id = $1 AND attempt = $2`, id, attempt).Scan(&file)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, broker.Errorf(broker.NotFound, "operation_statement_not_found",
			"there is no statement of attempt %d of operation %s (an attempt has one when it has ended on its nodes)", attempt, id)
	}
	return []byte(file), err
}
