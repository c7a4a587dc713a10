package sqlkit

import (
	"context"
	"database/sql"
	"sync/atomic"
)

// Counted returns r with a counter: each statement adds 1 to n.
func Counted(r Runner, n *atomic.Int64) Runner { return counted{r, n} }

type counted struct {
	Runner
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
