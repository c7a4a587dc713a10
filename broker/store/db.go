package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
)

// Options say which database and whose clock.
type Options struct {
	URL string // sqlite:/path/hostler.db or postgres://…
	// Now is the clock. Nil is the database's: on PostgreSQL the server's, so
	// that the leases of all replicas run by one clock.
	Now func() time.Time
	// Machine is this machine's clock, by which the server's goes on from one look at it to
	// the next; nil: time.Now. Only its monotonic reading counts.
	Machine func() time.Time
	Log     *zap.Logger // nil: none
	// Exclusive refuses a second broker on the same SQLite file.
	Exclusive bool
	// Serves is said by a broker: no database is held while one has it open.
	Serves bool
}

// DB is the store. Its exported methods own their transaction and write the
// audit row inside it.
type DB struct {
	engine
	now    func() time.Time
	log    *zap.Logger
	hints  *hub
	serves bool // see Options

	statements atomic.Int64
	refusals   broker.Repeats[refusedKind]
	strangers  strangers
}

// engine is what differs between the two databases. SQL text does not: it
// differs only by what dialect says.
type engine interface {
	dialect
	// write runs fn in one transaction and returns once that is durable. fn may
	// run more than once, and only its last run counts.
	write(ctx context.Context, fn func(ctx context.Context, t *tx) error) ([]Hint, error)
	reader() runner
	room() error // nil: there is room for more on the disk, as far as this process can see it
	tell(hints []Hint)
	lead(ctx context.Context, f func(ctx context.Context)) error
	leadHolder(ctx context.Context) (LeadHolder, error)
	close() error
}

// runner runs statements: a pool that prepares them, or a transaction.
type runner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// tx is one transaction, with the time at which it happens.
type tx struct {
	runner
	dialect
	now   time.Time
	clock func() time.Time // what time it is by now
	hints []Hint           // given after the commit
}

func (t *tx) hint(kind HintKind, id string) { t.hints = append(t.hints, Hint{kind, id}) }

// Open opens or makes the database and brings its schema up to date. Codes:
// schema_too_new, data_dir_in_use, store_unavailable, bad_store_url.
func Open(ctx context.Context, o Options) (*DB, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Machine == nil {
		o.Machine = time.Now
	}
	db := &DB{now: o.Now, log: o.Log, hints: newHub(), serves: o.Serves}
	var err error
	switch scheme, rest, _ := strings.Cut(o.URL, ":"); scheme {
	case "sqlite":
		db.engine, err = openSQLite(ctx, db, rest, o.Exclusive)
	case "postgres", "postgresql":
		db.engine, err = openPostgres(ctx, db, o.URL, o.Machine)
	default:
		return nil, broker.Errorf(broker.Invalid, "bad_store_url", "cannot open store: its URL is neither sqlite:/path nor postgres://…")
	}
	if err != nil {
		return nil, err
	}
	return db, nil
}

// Close ends the store's own work and closes the database. What has been
// acknowledged is durable whether or not Close runs.
func (db *DB) Close() error {
	err := db.close()
	db.hints.close()
	return err
}

// Ping asks the database for an answer.
func (db *DB) Ping(ctx context.Context) error {
	var one int
	return db.reader().QueryRowContext(ctx, `SELECT 1`).Scan(&one)
}

// Now is the store's clock, in UTC and whole microseconds.
func (db *DB) Now() time.Time { return db.now().UTC().Truncate(time.Microsecond) }

// Engine is sqlite or postgres.
func (db *DB) Engine() string { return db.name() }

// refusal is an error whose audit row outlives the transaction that it ends.
type refusal struct {
	err   error
	entry broker.AuditEntry
}

func (r *refusal) Error() string { return r.err.Error() }

// write runs fn in a transaction of its own. A refusal undoes what fn did and
// is audited in a transaction after it, see AuditRefusal.
func (db *DB) write(ctx context.Context, fn func(ctx context.Context, t *tx) error) error {
	hints, err := db.engine.write(ctx, func(ctx context.Context, t *tx) error {
		t.runner = counted{t.runner, &db.statements}
		return fn(ctx, t)
	})
	var r *refusal
	if errors.As(err, &r) {
		if err := db.AuditRefusal(ctx, r.entry); err != nil {
			return err
		}
		return r.err
	}
	if err != nil {
		return err
	}
	db.publish(hints)
	return nil
}

// refuse ends a transaction with err and an audit row that says so.
func refuse(err *broker.Error, e broker.AuditEntry) error {
	e.Code, e.Reason = err.Code, err.Message
	return &refusal{err: err, entry: e}
}
