package sqlkit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Writer is the single writer of a SQLite database and commits in groups. A commit with
// synchronous=FULL waits for the disk. Closures queue up meanwhile, and the next transaction takes
// them all, each inside its own savepoint. No caller is answered before the commit of its changes is
// durable.
type Writer struct {
	pool    *sql.DB // one connection
	stmts   *Prepared
	waiting chan *closure

	stop    chan struct{}
	stopped chan struct{}
	closing sync.Once
	running bool
}

type closure struct {
	ctx  context.Context
	fn   func(context.Context, Runner) error
	done chan error
}

// Limits of one transaction. maxGroupTime bounds how long the first closure waits for the closures
// behind it.
const (
	maxGroup     = 256
	maxGroupTime = 10 * time.Millisecond
)

var errClosed = errors.New("the store is closed")

// NewWriter returns a writer on a pool of one connection: BEGIN and COMMIT must use the same one.
func NewWriter(pool *sql.DB) *Writer {
	return &Writer{
		pool: pool, stmts: NewPrepared(pool), waiting: make(chan *closure, maxGroup), stop: make(chan struct{}),
		stopped: make(chan struct{}),
	}
}

// Do hands fn to the writer and waits until fn's changes are durable. If the caller's context ends
// before fn's turn, fn is skipped; after its turn began, fn is completed all the same.
func (w *Writer) Do(ctx context.Context, fn func(context.Context, Runner) error) error {
	c := &closure{ctx: ctx, fn: fn, done: make(chan error, 1)}
	select {
	case w.waiting <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.stop:
		return errClosed
	}
	select {
	case err := <-c.done:
		return err
	case <-w.stopped:
		select {
		case err := <-c.done:
			return err
		default:
			return errClosed
		}
	}
}

// Start begins to take closures.
func (w *Writer) Start() {
	w.running = true
	go w.run()
}

func (w *Writer) run() {
	defer close(w.stopped)
	for {
		select {
		case c := <-w.waiting:
			w.group(c)
		case <-w.stop:
			return
		}
	}
}

// group runs first and every closure that waits already or arrives while the group runs.
func (w *Writer) group(first *closure) {
	ctx := context.Background() // a caller that leaves must not interrupt the others
	_, err := w.stmts.ExecContext(ctx, `BEGIN IMMEDIATE`)
	if err != nil {
		first.done <- err
		return
	}
	start := time.Now() // allowed: how long this machine took, not what time it is
	var group []*closure
	var results []error
	for c := first; c != nil; c = w.more(len(group), start) {
		result, broken := w.one(c)
		group, results = append(group, c), append(results, result)
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
	for i, c := range group {
		if err != nil && results[i] == nil {
			results[i] = err
		}
		c.done <- results[i]
	}
}

func (w *Writer) more(have int, start time.Time) *closure {
	if have >= maxGroup || time.Since(start) > maxGroupTime {
		return nil
	}
	select {
	case c := <-w.waiting:
		return c
	default:
		return nil
	}
}

// one runs a closure in a savepoint. broken means that the surrounding transaction is no longer
// usable.
func (w *Writer) one(c *closure) (result, broken error) {
	if err := c.ctx.Err(); err != nil {
		return err, nil
	}
	ctx := context.WithoutCancel(c.ctx)
	if _, err := w.stmts.ExecContext(ctx, `SAVEPOINT one`); err != nil {
		return err, err
	}
	result = call(ctx, c.fn, w.stmts)
	if result != nil {
		if _, err := w.stmts.ExecContext(ctx, `ROLLBACK TO one`); err != nil {
			return result, result
		}
	}
	if _, err := w.stmts.ExecContext(ctx, `RELEASE one`); err != nil {
		return err, err
	}
	return result, nil
}

// call turns a caller's panic into an error, so that the shared writer survives.
func call(ctx context.Context, fn func(context.Context, Runner) error, r Runner) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a transaction: %v", p)
		}
	}()
	return fn(ctx, r)
}

// Close ends the writer after the group in progress, and closes the pool.
func (w *Writer) Close() error {
	w.closing.Do(func() { close(w.stop) })
	if w.running {
		<-w.stopped
	}
	return w.pool.Close()
}
