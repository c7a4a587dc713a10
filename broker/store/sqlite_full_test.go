package store

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/hostler/hostler/broker"
)

func openTest(t *testing.T) *DB {
	t.Helper()
	db, err := Open(t.Context(), Options{URL: "sqlite:" + filepath.Join(t.TempDir(), "hostler.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	err = db.write(t.Context(), func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `CREATE TABLE things (name TEXT PRIMARY KEY)`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func (db *DB) put(name string) error {
	return db.write(context.Background(), func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `INSERT INTO things (name) VALUES ($1)`, name)
		return err
	})
}

// things counts the rows that were put.
func (db *DB) things(t *testing.T) (n int) {
	t.Helper()
	if err := db.reader().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM things`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A full disk refuses writes that do not fit, keeps acknowledged writes, and accepts writes again
// once there is room.
func TestAFullDiskIsSaidAndLosesNothing(t *testing.T) {
	db := openTest(t)
	pragma := func(query string) (n int) {
		t.Helper()
		err := db.write(t.Context(), func(ctx context.Context, tx *tx) error { return tx.QueryRowContext(ctx, query).Scan(&n) })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	pragma(fmt.Sprintf(`PRAGMA max_page_count = %d`, pragma(`PRAGMA page_count`)+20))
	put := 0
	var err error
	for ; put < 10000; put++ {
		if err = db.put(fmt.Sprintf("%0200d", put)); err != nil {
			break
		}
	}
	if broker.AsError(err).Code != "disk_full" {
		t.Fatalf("after %d: %v", put, err)
	}
	pragma(`PRAGMA max_page_count = 1000000`)
	if err := db.put("room again"); err != nil {
		t.Fatal(err)
	}
	if n := db.things(t); n != put+1 {
		t.Fatalf("%d are there, %d were acknowledged", n, put+1)
	}
}
