package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hostler/hostler/broker/store/sqlkit"
)

// writer commits in groups. A commit with synchronous=FULL waits for the disk. Closures queue up
// meanwhile, and the next transaction takes them all, each inside its own savepoint. No caller is
// answered before the commit of its changes is durable.
type writer struct {
	db    *DB
	pool  *sql.DB // one connection
	stmts *sqlkit.Prepared
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

// Limits of one transaction. maxGroupTime bounds how long the first closure waits for the closures
// behind it.
const (
	maxGroup     = 256
	maxGroupTime = 10 * time.Millisecond
)

var errClosed = errors.New("the store is closed")

func newWriter(pool *sql.DB, db *DB) *writer {
	return &writer{
		db: db, pool: pool, stmts: sqlkit.NewPrepared(pool), jobs: make(chan *job, maxGroup),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// do hands fn to the writer and waits until fn's changes are durable. If the caller's context ends
// before fn's turn, fn is skipped; after its turn began, fn is completed all the same.
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

// group runs first and every job that waits already or arrives while the group runs.
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
		// Nothing of this group is durable; SQLite may have rolled back already.
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

// one runs a closure in a savepoint. broken means that the surrounding transaction is no longer
// usable.
func (w *writer) one(j *job) (result, broken error) {
	if err := j.ctx.Err(); err != nil {
		return err, nil
	}
	ctx := context.WithoutCancel(j.ctx)
	if _, err := w.stmts.ExecContext(ctx, `SAVEPOINT one`); err != nil {
		return err, err
	}
	t := &tx{Runner: w.stmts, Dialect: sqlkit.SQLite{}, now: w.db.Now(), clock: w.db.Now}
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

// call turns a caller's panic into an error, so that the shared writer survives.
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
