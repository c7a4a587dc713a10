package store

import (
	"context"
	"database/sql"
	"sync/atomic"

	"github.com/hostler/hostler/broker/store/sqlkit"
)

// counted is a runner that counts its statements.
type counted struct {
	sqlkit.Runner
	n *atomic.Int64
}

func (c counted) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	c.n.Add(1)
	return c.Runner.ExecContext(ctx, query, args...)
}

func (c counted) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c.n.Add(1)
	return c.Runner.QueryContext(ctx, query, args...)
}

func (c counted) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	c.n.Add(1)
	return c.Runner.QueryRowContext(ctx, query, args...)
}

// reader returns the engine's reader, counted.
func (db *DB) reader() sqlkit.Runner { return counted{db.engine.reader(), &db.statements} }

// Statements returns the number of statements that the database was given so far, without the
// statements that begin and end transactions.
func (db *DB) Statements() int64 { return db.statements.Load() }
