package store

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// Unfollowed lists the runs of a kind at a site that somebody had cancelled for a reason and that
// have no follower: a follower's id is the cancelled run's id plus the mark.
func (db *DB) Unfollowed(ctx context.Context, site, kind, by, reason, mark string) ([]chain.Record, error) {
	return sqlkit.Collect(ctx, db.reader(), scanRun, `SELECT `+runColumns+` FROM chain_runs r
		WHERE site = $1 AND status = 'cancelled' AND kind = $2 AND asked_by = $3 AND asked_reason = $4
			AND NOT EXISTS (SELECT 1 FROM chain_runs f WHERE f.id = r.id || $5) ORDER BY id`, site, kind, by, reason, mark)
}

// GivenUp counts the runs of a kind at a site that somebody had cancelled for a reason, and that
// ended after the given time, have not ended, or have an unended follower: see Unfollowed.
func (db *DB) GivenUp(ctx context.Context, site, kind, by, reason, mark string, after time.Time) (n int, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT COUNT(*) FROM chain_runs r
		WHERE site = $1 AND kind = $2 AND asked_by = $3 AND asked_reason = $4 AND (completed_at = 0 OR completed_at > $5
			OR EXISTS (SELECT 1 FROM chain_runs f WHERE f.id = r.id || $6 AND f.completed_at = 0))`, site, kind, by, reason, sqlkit.Micros(after), mark).Scan(&n)
	return n, err
}
