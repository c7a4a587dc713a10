package sqlkit_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/hostler/hostler/broker/store/sqlkit"
)

func open(t *testing.T) *sql.DB {
	t.Helper()
	pool, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	pool.SetMaxOpenConns(1)
	if _, err := pool.ExecContext(t.Context(), `CREATE TABLE things (name TEXT PRIMARY KEY, kind TEXT NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	return pool
}

// Every runner runs statements alike; a counted runner counts each of them once.
func TestRunnersWriteReadAndCount(t *testing.T) {
	for name, runner := range map[string]func(*sql.DB) sqlkit.Runner{
		"pool":     func(pool *sql.DB) sqlkit.Runner { return pool },
		"prepared": func(pool *sql.DB) sqlkit.Runner { return sqlkit.NewPrepared(pool) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, n := t.Context(), new(atomic.Int64)
			r := sqlkit.Counted(runner(open(t)), n)
			for _, thing := range []string{"one", "two", "three"} {
				added, err := sqlkit.Changed(r.ExecContext(ctx, `INSERT INTO things (name, kind) VALUES ($1, $2)`, thing, "k"))
				if err != nil || added != 1 {
					t.Fatal(added, err)
				}
			}
			scan := func(row sqlkit.Row) (s string, err error) { return s, row.Scan(&s) }
			names, err := sqlkit.Collect(ctx, r, scan, `SELECT name FROM things ORDER BY name`)
			if err != nil || !slices.Equal(names, []string{"one", "three", "two"}) {
				t.Error(names, err)
			}
			kinds, err := sqlkit.Count[string](ctx, r, `SELECT kind, COUNT(*) FROM things GROUP BY kind`)
			if err != nil || kinds["k"] != 3 {
				t.Error(kinds, err)
			}
			var one int
			if err := r.QueryRowContext(ctx, `SELECT 1`).Scan(&one); err != nil || one != 1 {
				t.Error(one, err)
			}
			if n.Load() != 6 {
				t.Errorf("%d statements were counted", n.Load())
			}
		})
	}
}

// A text that cannot be prepared is an error of the call, and stays one.
func TestAPreparedPoolReturnsTheErrorOfAText(t *testing.T) {
	p := sqlkit.NewPrepared(open(t))
	for range 2 {
		var v int
		if err := p.QueryRowContext(t.Context(), `SELECT nothing FROM nowhere`).Scan(&v); err == nil {
			t.Error("QueryRow went through")
		}
		if _, err := sqlkit.Changed(p.ExecContext(t.Context(), `UPDATE nowhere SET a = 1`)); err == nil {
			t.Error("Exec went through")
		}
		if _, err := sqlkit.Count[string](t.Context(), p, `SELECT a, b FROM nowhere`); err == nil {
			t.Error("Query went through")
		}
	}
}

func TestAPreparedPoolIsSharedByManyCallers(t *testing.T) {
	p := sqlkit.NewPrepared(open(t))
	var work sync.WaitGroup
	for range 32 {
		work.Go(func() {
			var v int
			if err := p.QueryRowContext(context.Background(), `SELECT 1`).Scan(&v); err != nil || v != 1 {
				t.Error(v, err)
			}
		})
	}
	work.Wait()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.QueryRowContext(t.Context(), `SELECT 1`).Scan(new(int)); err == nil {
		t.Error("a closed pool answered")
	}
}
