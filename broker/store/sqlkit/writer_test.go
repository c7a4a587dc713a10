package sqlkit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/hostler/hostler/broker/store/sqlkit"
)

func openWriter(t *testing.T) *sqlkit.Writer {
	t.Helper()
	w := sqlkit.NewWriter(open(t))
	w.Start()
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func put(w *sqlkit.Writer, name string, then error) error {
	return w.Do(context.Background(), func(ctx context.Context, r sqlkit.Runner) error {
		if _, err := r.ExecContext(ctx, `INSERT INTO things (name, kind) VALUES ($1, 'k')`, name); err != nil {
			return err
		}
		return then
	})
}

// things counts the rows that were put.
func things(t *testing.T, w *sqlkit.Writer) (n int) {
	t.Helper()
	err := w.Do(t.Context(), func(ctx context.Context, r sqlkit.Runner) error {
		return r.QueryRowContext(ctx, `SELECT COUNT(*) FROM things`).Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestOneThatFailsTakesNobodyWithIt(t *testing.T) {
	w := openWriter(t)
	refusal := errors.New("no")
	var work sync.WaitGroup
	for i := range 200 {
		work.Go(func() {
			var then error
			if i%2 == 1 {
				then = refusal
			}
			if err := put(w, fmt.Sprint(i), then); !errors.Is(err, then) {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	work.Wait()
	if n := things(t, w); n != 100 {
		t.Fatalf("%d are there", n)
	}
}

func TestAPanicInATransactionIsItsOwn(t *testing.T) {
	w := openWriter(t)
	err := w.Do(t.Context(), func(ctx context.Context, r sqlkit.Runner) error {
		_, _ = r.ExecContext(ctx, `INSERT INTO things (name, kind) VALUES ('half', 'k')`)
		panic("oh")
	})
	if err == nil {
		t.Fatal("it went through")
	}
	if err := put(w, "next", nil); err != nil {
		t.Fatal(err)
	}
	if n := things(t, w); n != 1 {
		t.Fatalf("%d are there", n)
	}
}

func TestACallerWhoHasLeftIsLeftOut(t *testing.T) {
	w := openWriter(t)
	gone, leave := context.WithCancel(t.Context())
	leave()
	err := w.Do(gone, func(context.Context, sqlkit.Runner) error {
		t.Error("it ran")
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestAClosedWriterTakesNothing(t *testing.T) {
	w := openWriter(t)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := put(w, "late", nil); err == nil {
		t.Error("a closed writer wrote")
	}
}
