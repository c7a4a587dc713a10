package store

import (
	"context"
	"iter"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/recording"
)

// FreezeGate is the number of the lock that a freeze holds alone.
const FreezeGate = freezeGate

// LeadLock is the number of the leader's lock.
const LeadLock = leadLock

// OutboxTypes lists the types of the messages in the outbox, oldest first.
func OutboxTypes(ctx context.Context, db *DB) ([]string, error) {
	return collect(ctx, db.reader(), func(row interface{ Scan(...any) error }) (s string, err error) {
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

// Exec runs a statement of a test, to make a database look as it does after years.
func Exec(ctx context.Context, db *DB, statement string, args ...any) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, statement, args...)
		return err
	})
}

// Left lists the ids in a table, sorted.
func Left(ctx context.Context, db *DB, table, id string) ([]string, error) {
	return collect(ctx, db.reader(), scanText, `SELECT `+id+` FROM `+table+` ORDER BY `+id)
}

// WithRoomQuery and ClaimInBatchQuery are the queries of Claim for runs that wait in a batch.
const WithRoomQuery = withRoom

func ClaimInBatchQuery(c chain.Claim, now time.Time) (string, []any) {
	return claimQuery(c, inBatch, now)
}

// Texts returns the texts of the statements that a SQLite database was given so far.
func Texts(db *DB) (texts []string) {
	e := db.engine.(*sqliteEngine)
	for _, p := range []*prepared{e.read, e.commits.stmts} {
		p.stmts.Range(func(text, _ any) bool {
			texts = append(texts, text.(string))
			return true
		})
	}
	return texts
}

// ReadClock is a PostgreSQL store's reading of the server's clock, done once a minute.
func ReadClock(ctx context.Context, db *DB) error { return db.engine.(*postgresEngine).readClock(ctx) }
