package store_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// The deny list is read every two seconds: by the index of those that are denied, and not by
// one that leads to the certificates of all nodes.
func TestTheDenyListIsReadByItsOwnIndex(t *testing.T) {
	url := storetest.URL(t, "sqlite")
	storetest.Reopen(t, url, nil)
	raw := must(sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:")))(t)
	defer func() { _ = raw.Close() }()
	rows := must(raw.Query("EXPLAIN QUERY PLAN "+store.DenyListQuery, 1))(t)
	defer func() { _ = rows.Close() }()
	plan := ""
	for rows.Next() {
		var id, parent, unused int
		var detail string
		ok(t, rows.Scan(&id, &parent, &unused, &detail))
		plan += detail + "\n"
	}
	if ok(t, rows.Err()); !strings.Contains(plan, "certificates_denied") {
		t.Error(plan)
	}
}
