package store_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// The deny list is read every two seconds: by the index of denied certificates, not by an index of
// the certificates of all nodes.
func TestTheDenyListIsReadByItsOwnIndex(t *testing.T) {
	url := storetest.URL(t, "sqlite")
	storetest.Reopen(t, url, nil)
	raw := must(sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:")))(t)
	defer func() { _ = raw.Close() }()
	if plan := planOf(t, raw, store.DenyListQuery, 1); !strings.Contains(plan, "certificates_denied") {
		t.Error(plan)
	}
}

// planOf returns SQLite's plan of a query.
func planOf(t *testing.T, raw *sql.DB, query string, args ...any) (plan string) {
	t.Helper()
	rows := must(raw.Query("EXPLAIN QUERY PLAN "+query, args...))(t)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		ok(t, rows.Scan(&id, &parent, &unused, &detail))
		plan += detail + "\n"
	}
	ok(t, rows.Err())
	return plan
}
