package store

import (
	"context"

	"github.com/hostler/hostler/broker/store/sqlkit"
)

// LabelledAtOnce is how many rows a page of a list with labels looks at. Labels are compared here and
// not by the database, so that a page of a rare label would otherwise read all rows.
const LabelledAtOnce = 1000

// labelled is a list that is filtered by labels.
type labelled[T any] struct {
	scan     func(sqlkit.Row) (T, error)
	id       func(T) string
	labelsOf func(T) map[string]string
	want     map[string]string
	limit    int // of the page; 0: all rows, and no bound on those that are looked at
}

// page reads a page and the cursor of the next page ("" at the end). With labels the page may have fewer
// things than limit, or none, although there is a next page. w must be the query's.
func (l labelled[T]) page(ctx context.Context, db *DB, query string, w *sqlkit.Where) (page []T, next string, err error) {
	rows := l.limit
	if len(l.want) > 0 {
		rows = max(l.limit, LabelledAtOnce)
	}
	if l.limit > 0 {
		query += w.Limit(rows + 1)
	}
	read, err := sqlkit.Collect(ctx, db.reader(), l.scan, query, w.Args...)
	if err != nil {
		return nil, "", err
	}
	for i, v := range read {
		if l.limit > 0 && (len(page) == l.limit || i == rows) {
			return page, l.id(read[i-1]), nil
		}
		if hasLabels(l.labelsOf(v), l.want) {
			page = append(page, v)
		}
	}
	return page, "", nil
}

func hasLabels(has, want map[string]string) bool {
	for k, v := range want {
		if got, ok := has[k]; !ok || got != v {
			return false
		}
	}
	return true
}
