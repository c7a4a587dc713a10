package storetest

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
)

// Size is the size of a table.
type Size struct{ Rows, Bytes int64 }

// OnDisk returns the size of each table of a SQLite database; Bytes includes the table's indexes.
func OnDisk(t testing.TB, url string) map[string]Size {
	t.Helper()
	sizes, err := onDisk(url)
	if err != nil {
		t.Fatal(err)
	}
	return sizes
}

func onDisk(url string) (map[string]Size, error) {
	db, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(url, "sqlite:")+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	defer db.Close() //nolint:errcheck // it only asked
	rows, err := db.Query(`SELECT m.tbl_name, SUM(s.pgsize) FROM dbstat s JOIN sqlite_schema m ON m.name = s.name GROUP BY m.tbl_name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // its error is read below
	sizes := map[string]Size{}
	for rows.Next() {
		var table string
		var size Size
		if err := rows.Scan(&table, &size.Bytes); err != nil {
			return nil, err
		}
		sizes[table] = size
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for table, size := range sizes {
		if err := db.QueryRow(fmt.Sprintf(`SELECT COUNT(*) FROM %q`, table)).Scan(&size.Rows); err != nil {
			return nil, err
		}
		sizes[table] = size
	}
	return sizes, nil
}
