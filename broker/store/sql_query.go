package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// where collects conditions; ? becomes the next placeholder.
type where struct {
	terms []string
	args  []any
}

func (w *where) add(term string, args ...any) {
	for _, a := range args {
		w.args = append(w.args, a)
		term = strings.Replace(term, "?", fmt.Sprintf("$%d", len(w.args)), 1)
	}
	w.terms = append(w.terms, term)
}

func (w *where) equal(column, value string) {
	if value != "" {
		w.add(column+" = ?", value)
	}
}

// in adds column IN (…); an empty list adds no condition.
func in[S ~string](w *where, column string, values []S) {
	if len(values) == 0 {
		return
	}
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = string(v)
	}
	w.add(column+" IN ("+strings.TrimSuffix(strings.Repeat("?, ", len(values)), ", ")+")", args...)
}

func (w *where) limit(n int) string {
	w.args = append(w.args, n)
	return fmt.Sprintf(" LIMIT $%d", len(w.args))
}

func (w *where) String() string {
	if len(w.terms) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.terms, " AND ")
}

// collect runs a query and scans every row.
func collect[T any](ctx context.Context, r runner, scan func(interface{ Scan(...any) error }) (T, error), query string, args ...any) ([]T, error) {
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

// changed returns the number of rows that a statement changed.
func changed(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// count reads two columns, a word and a number, into a map.
func count[K ~string](ctx context.Context, r runner, query string, args ...any) (map[K]int, error) {
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
