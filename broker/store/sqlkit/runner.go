package sqlkit

import (
	"context"
	"database/sql"
)

// Runner runs statements: a pool, a pool of prepared statements, or a transaction.
type Runner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Row is a *sql.Row, or the current row of *sql.Rows.
type Row interface{ Scan(...any) error }

// Collect runs a query and scans every row.
func Collect[T any](ctx context.Context, r Runner, scan func(Row) (T, error), query string, args ...any) ([]T, error) {
	rows, err := r.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err says it
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// Count reads two columns, a word and a number, into a map.
func Count[K ~string](ctx context.Context, r Runner, query string, args ...any) (map[K]int, error) {
	rows, err := r.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err says it
	counts := map[K]int{}
	for rows.Next() {
		var k string
		var n int
		if err := rows.Scan(&k, &n); err != nil {
			return nil, err
		}
		counts[K(k)] = n
	}
	return counts, rows.Err()
}

// Changed returns the number of rows that a statement changed.
func Changed(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
