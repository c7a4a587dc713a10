package store

import (
	"context"
	"iter"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/recording"
)

// FreezeGate is the number of the lock that a freeze has alone.
const FreezeGate = freezeGate

// LeadLock is the number of the lock that who leads has.
const LeadLock = leadLock

// OutboxTypes lists the types of the messages in the outbox, oldest first.
func OutboxTypes(ctx context.Context, db *DB) ([]string, error) {
	return collect(ctx, db.reader(), func(row interface{ Scan(...any) error }) (s string, err error) {
		err = row.Scan(&s)
		return s, err
	}, `SELECT type FROM outbox ORDER BY id`)
}

// RecentEventsQuery is that of RecentEvents.
const RecentEventsQuery = recentEvents

// VerifyBlocks is VerifyRecording of blocks that a test reads.
func VerifyBlocks(ctx context.Context, db *DB, id string, blocks iter.Seq2[recording.Block, error]) (recording.Report, *recording.Head, error) {
	return db.verify(ctx, id, blocks)
}

// DenyListQuery is that of DenyList.
const DenyListQuery = denyList

// Exec is a statement of a test: what a database is like after years.
func Exec(ctx context.Context, db *DB, statement string, args ...any) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, statement, args...)
		return err
	})
}

// Left lists the ids that a table has, in their order.
func Left(ctx context.Context, db *DB, table, id string) ([]string, error) {
	return collect(ctx, db.reader(), scanText, `SELECT `+id+` FROM `+table+` ORDER BY `+id)
}

// WithRoomQuery and ClaimInBatchQuery are those of Claim, of what waits in a batch.
const WithRoomQuery = withRoom

func ClaimInBatchQuery(c chain.Claim, now time.Time) (string, []any) {
	return claimQuery(c, inBatch, now)
}

// Texts are the statements that a database on SQLite was given so far.
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

// ReadClock is what a store on PostgreSQL does once a minute.
func ReadClock(ctx context.Context, db *DB) error { return db.engine.(*postgresEngine).readClock(ctx) }
