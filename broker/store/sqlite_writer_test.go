package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
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

func (db *DB) put(name string, then error) error {
	return db.write(context.Background(), func(ctx context.Context, t *tx) error {
		if _, err := t.ExecContext(ctx, `INSERT INTO things (name) VALUES ($1)`, name); err != nil {
			return err
		}
		return then
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

func TestOneThatFailsTakesNobodyWithIt(t *testing.T) {
	db := openTest(t)
	refusal := errors.New("no")
	var work sync.WaitGroup
	for i := range 200 {
		work.Go(func() {
			var then error
			if i%2 == 1 {
				then = refusal
			}
			if err := db.put(fmt.Sprint(i), then); !errors.Is(err, then) {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	work.Wait()
	if n := db.things(t); n != 100 {
		t.Fatalf("%d are there", n)
	}
}

func TestAPanicInATransactionIsItsOwn(t *testing.T) {
	db := openTest(t)
	err := db.write(t.Context(), func(ctx context.Context, t *tx) error {
		_, _ = t.ExecContext(ctx, `INSERT INTO things (name) VALUES ('half')`)
		panic("oh")
	})
	if err == nil {
		t.Fatal("it went through")
	}
	if err := db.put("next", nil); err != nil {
		t.Fatal(err)
	}
	if n := db.things(t); n != 1 {
		t.Fatalf("%d are there", n)
	}
}

func TestACallerWhoHasLeftIsLeftOut(t *testing.T) {
	db := openTest(t)
	gone, leave := context.WithCancel(t.Context())
	leave()
	err := db.write(gone, func(context.Context, *tx) error {
		t.Error("it ran")
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// A full disk refuses writes that do not fit, keeps acknowledged writes, and accepts writes again
// once there is room.
func TestAFullDiskIsSaidAndLosesNothing(t *testing.T) {
	db := openTest(t)
	raw := db.engine.(*sqliteEngine).commits.pool
	var pages int
	if err := raw.QueryRow(`PRAGMA page_count`).Scan(&pages); err != nil {
		t.Fatal(err)
	}
	var limit int
	if err := raw.QueryRow(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages+20)).Scan(&limit); err != nil {
		t.Fatal(err)
	}
	put := 0
	var err error
	for ; put < 10000; put++ {
		if err = db.put(fmt.Sprintf("%0200d", put), nil); err != nil {
			break
		}
	}
	if broker.AsError(err).Code != "disk_full" {
		t.Fatalf("after %d: %v", put, err)
	}
	if err := raw.QueryRow(`PRAGMA max_page_count = 1000000`).Scan(&limit); err != nil {
		t.Fatal(err)
	}
	if err := db.put("room again", nil); err != nil {
		t.Fatal(err)
	}
	if n := db.things(t); n != put+1 {
		t.Fatalf("%d are there, %d were acknowledged", n, put+1)
	}
}
