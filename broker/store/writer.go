package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// writer commits in groups. A commit with synchronous=FULL waits for the disk;
// meanwhile closures queue up, and the next transaction takes them all, each
// inside a savepoint of its own. Nobody is answered before the commit that
// holds his changes is durable.
type writer struct {
	db    *DB
	pool  *sql.DB // one connection
	stmts *prepared
	jobs  chan *job

	stop    chan struct{}
	stopped chan struct{}
	closing sync.Once
	running bool
}

type job struct {
	ctx   context.Context
	fn    func(context.Context, *tx) error
	hints []Hint
	done  chan error
}

// How much one transaction takes. The time bounds what the first in it waits
// for those behind.
const (
	maxGroup     = 256
	maxGroupTime = 10 * time.Millisecond
)

var errClosed = errors.New("the store is closed")

func newWriter(pool *sql.DB, db *DB) *writer {
	return &writer{
		db: db, pool: pool, stmts: &prepared{db: pool}, jobs: make(chan *job, maxGroup),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// do hands fn to the writer and waits until it is durable. A caller that goes
// away before its turn is left out; after that it is done all the same.
func (w *writer) do(ctx context.Context, fn func(context.Context, *tx) error) ([]Hint, error) {
	j := &job{ctx: ctx, fn: fn, done: make(chan error, 1)}
	select {
	case w.jobs <- j:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.stop:
		return nil, errClosed
	}
	select {
	case err := <-j.done:
		return j.hints, err
	case <-w.stopped:
		select {
		case err := <-j.done:
			return j.hints, err
		default:
			return nil, errClosed
		}
	}
}

func (w *writer) start() {
	w.running = true
	go w.run()
}

func (w *writer) run() {
	defer close(w.stopped)
	for {
		select {
		case j := <-w.jobs:
			w.group(j)
		case <-w.stop:
			return
		}
	}
}

// group runs first and whatever else is waiting, or comes while it runs.
func (w *writer) group(first *job) {
	ctx := context.Background() // a caller that leaves must not interrupt the others
	_, err := w.stmts.ExecContext(ctx, `BEGIN IMMEDIATE`)
	if err != nil {
		first.done <- err
		return
	}
	start := time.Now() // allowed: how long this machine took, not what time it is
	var group []*job
	var results []error
	for j := first; j != nil; j = w.more(len(group), start) {
		result, broken := w.one(j)
		group, results = append(group, j), append(results, result)
		if broken != nil {
			err = broken
			break
		}
	}
	if err == nil {
		_, err = w.stmts.ExecContext(ctx, `COMMIT`)
	}
	if err != nil {
		// Nothing of this group is durable; SQLite may have undone it already.
		_, _ = w.stmts.ExecContext(ctx, `ROLLBACK`)
	}
	for i, j := range group {
		if err != nil && results[i] == nil {
			results[i] = err
		}
		j.done <- results[i]
	}
}

func (w *writer) more(have int, start time.Time) *job {
	if have >= maxGroup || time.Since(start) > maxGroupTime {
		return nil
	}
	select {
	case j := <-w.jobs:
		return j
	default:
		return nil
	}
}

// one runs a closure in a savepoint. broken says that the transaction around
// it is no more.
func (w *writer) one(j *job) (result, broken error) {
	if err := j.ctx.Err(); err != nil {
		return err, nil
	}
	ctx := context.WithoutCancel(j.ctx)
	if _, err := w.stmts.ExecContext(ctx, `SAVEPOINT one`); err != nil {
		return err, err
	}
	t := &tx{runner: w.stmts, dialect: sqliteDialect{}, now: w.db.Now(), clock: w.db.Now}
	result = call(ctx, j.fn, t)
	if result != nil {
		if _, err := w.stmts.ExecContext(ctx, `ROLLBACK TO one`); err != nil {
			return result, result
		}
	}
	if _, err := w.stmts.ExecContext(ctx, `RELEASE one`); err != nil {
		return err, err
	}
	j.hints = t.hints
	return result, nil
}

// call keeps one caller's panic from ending everybody's writer.
func call(ctx context.Context, fn func(context.Context, *tx) error, t *tx) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic in a transaction: %v", r)
		}
	}()
	return fn(ctx, t)
}

func (w *writer) close() error {
	w.closing.Do(func() { close(w.stop) })
	if w.running {
		<-w.stopped
	}
	return w.pool.Close()
}
