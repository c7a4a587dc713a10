package store

import (
	"context"
	"database/sql"
	"iter"
	"sync"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// FreezeGate is the number of the lock that a freeze holds alone.
const FreezeGate = freezeGate

// ReadByPlacement is how many certificates a placement reads.
const ReadByPlacement = readByPlacement

// LeadLock is the number of the leader's lock.
const LeadLock = leadLock

// OutboxTypes lists the types of the messages in the outbox, oldest first.
func OutboxTypes(ctx context.Context, db *DB) ([]string, error) {
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (s string, err error) {
		err = row.Scan(&s)
		return s, err
	}, `SELECT type FROM outbox ORDER BY id`)
}

// RecentEventsQuery is the query of RecentEvents.
const RecentEventsQuery = recentEvents

// VerifyBlocks is VerifyRecording for blocks that a test supplies.
func VerifyBlocks(ctx context.Context, db *DB, id string, blocks iter.Seq2[recording.Block, error]) (recording.Report, *recording.Head, error) {
	return db.verify(ctx, id, blocks)
}

// DenyListQuery is the query of DenyList.
const DenyListQuery = denyList

// SaveReport records a report without the request that carries it.
func SaveReport(ctx context.Context, db *DB, nodeID string, r NodeReport) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, nodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		return t.saveReport(ctx, &n, r)
	})
}

// Exec runs a statement of a test, to make a database look as it does after years.
func Exec(ctx context.Context, db *DB, statement string, args ...any) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, statement, args...)
		return err
	})
}

// Left lists the ids in a table, sorted.
func Left(ctx context.Context, db *DB, table, id string) ([]string, error) {
	return sqlkit.Collect(ctx, db.reader(), scanText, `SELECT `+id+` FROM `+table+` ORDER BY `+id)
}

// WithRoomQuery and ClaimInBatchQuery are the queries of Claim for runs that wait in a batch.
const WithRoomQuery = withRoom

func ClaimInBatchQuery(c chain.Claim, now time.Time) (string, []any) {
	return claimQuery(c, inBatch, now)
}

// Texts gives the database an engine that keeps the text of each statement. The function returned
// lists the texts, each text once.
func Texts(db *DB) func() []string {
	e := &keepingEngine{engine: db.engine}
	db.engine = e
	return func() []string {
		var texts []string
		e.texts.Range(func(text, _ any) bool {
			texts = append(texts, text.(string))
			return true
		})
		return texts
	}
}

type keepingEngine struct {
	engine
	texts sync.Map
}

func (e *keepingEngine) reader() sqlkit.Runner { return keepingRunner{e.engine.reader(), &e.texts} }

func (e *keepingEngine) write(ctx context.Context, fn func(ctx context.Context, t *tx) error) ([]Hint, error) {
	return e.engine.write(ctx, func(ctx context.Context, t *tx) error {
		t.Runner = keepingRunner{t.Runner, &e.texts}
		return fn(ctx, t)
	})
}

type keepingRunner struct {
	sqlkit.Runner
	texts *sync.Map
}

func (r keepingRunner) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	r.texts.Store(query, nil)
	return r.Runner.ExecContext(ctx, query, args...)
}

func (r keepingRunner) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	r.texts.Store(query, nil)
	return r.Runner.QueryContext(ctx, query, args...)
}

func (r keepingRunner) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	r.texts.Store(query, nil)
	return r.Runner.QueryRowContext(ctx, query, args...)
}

// ReadClock is a PostgreSQL store's reading of the server's clock, done once a minute.
func ReadClock(ctx context.Context, db *DB) error { return db.engine.(*postgresEngine).clock.Read(ctx) }
