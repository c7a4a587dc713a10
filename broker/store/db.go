package store

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// Options name the database and the clock.
type Options struct {
	URL string // sqlite:/path/hostler.db or postgres://…
	// Now is the clock. Nil selects the database's clock: on PostgreSQL the server's, so that the
	// leases of all replicas run by one clock.
	Now func() time.Time
	// Machine is the local clock, used to measure the time since the server's clock was last read;
	// nil: time.Now. Only its monotonic reading counts.
	Machine func() time.Time
	Log     *zap.Logger // nil: none
	// Judge judges certificates again when a policy has changed. Nil: a free node whose certificate was not judged
	// by the policy in force is not handed out.
	Judge JudgeCertificate
	// Exclusive refuses a second broker on the same SQLite file.
	Exclusive bool
	// Serves marks a broker: the database cannot be held while a broker has the database open.
	Serves bool
}

// DB is the store. Exported methods own their transaction and write the audit row inside the
// transaction.
type DB struct {
	engine    engine
	now       func() time.Time
	log       *zap.Logger
	hints     *hub
	judgeFile JudgeCertificate
	serves    bool // see Options

	statements atomic.Int64
	refusals   broker.Repeats[refusedKind]
	strangers  strangers
}

// engine is the part that differs between the two databases. SQL text differs only by dialect.
type engine interface {
	sqlkit.Dialect
	// write runs fn in one transaction and returns once the transaction is durable. fn may run more
	// than once; only the last run counts.
	write(ctx context.Context, fn func(ctx context.Context, t *tx) error) ([]Hint, error)
	reader() sqlkit.Runner
	room() error // nil: the disk has room for more, as far as this process can see
	tell(hints []Hint)
	lead(ctx context.Context, f func(ctx context.Context)) error
	leadHolder(ctx context.Context) (LeadHolder, error)
	close() error
}

// tx is one transaction, with its time.
type tx struct {
	sqlkit.Runner
	sqlkit.Dialect
	now       time.Time
	clock     func() time.Time // the current time
	hints     []Hint           // sent after the commit
	judgeFile JudgeCertificate
}

func (t *tx) hint(kind HintKind, id string) { t.hints = append(t.hints, Hint{kind, id}) }

// Open opens or creates the database and migrates the schema to the current version. Codes:
// schema_too_new, data_dir_in_use, store_unavailable, bad_store_url.
func Open(ctx context.Context, o Options) (*DB, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Machine == nil {
		o.Machine = time.Now
	}
	db := &DB{now: o.Now, log: o.Log, hints: newHub(), judgeFile: o.Judge, serves: o.Serves}
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

// Close stops the store's background work and closes the database. Acknowledged writes are durable
// even without Close.
func (db *DB) Close() error {
	err := db.engine.close()
	db.hints.close()
	return err
}

// Ping runs a trivial query.
func (db *DB) Ping(ctx context.Context) error {
	var one int
	return db.reader().QueryRowContext(ctx, `SELECT 1`).Scan(&one)
}

// Now returns the store's time, in UTC and whole microseconds.
func (db *DB) Now() time.Time { return db.now().UTC().Truncate(time.Microsecond) }

// Statements returns the number of statements that the database was given so far, without the
// statements that begin and end transactions.
func (db *DB) Statements() int64 { return db.statements.Load() }

// Engine returns sqlite or postgres.
func (db *DB) Engine() string { return db.engine.Name() }

// reader returns the engine's reader, counted.
func (db *DB) reader() sqlkit.Runner { return sqlkit.Counted(db.engine.reader(), &db.statements) }

// refusal is an error whose audit row survives the rollback of the refused transaction.
type refusal struct {
	err   error
	entry broker.AuditEntry
}

func (r *refusal) Error() string { return r.err.Error() }

// write runs fn in its own transaction. A refusal rolls fn back and is then audited in a second
// transaction, see AuditRefusal.
func (db *DB) write(ctx context.Context, fn func(ctx context.Context, t *tx) error) error {
	hints, err := db.engine.write(ctx, func(ctx context.Context, t *tx) error {
		t.Runner = sqlkit.Counted(t.Runner, &db.statements)
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

// refuse rolls the transaction back with err and audits the refusal in entry e.
func refuse(err *broker.Error, e broker.AuditEntry) error {
	e.Code, e.Reason = err.Code, err.Message
	return &refusal{err: err, entry: e}
}
