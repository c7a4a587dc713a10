package store

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// LiveOperations are the operations of a status that have not ended.
type LiveOperations struct {
	Status     broker.OperationStatus
	Operations int
	Oldest     time.Duration // the time that the oldest is queued, or in its present batch; of a queued retry: since the first request
}

// LiveOperations counts the operations that have not ended, by status. A status without operations is left out.
func (db *DB) LiveOperations(ctx context.Context) ([]LiveOperations, error) {
	now := db.Now()
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (l LiveOperations, err error) {
		var since time.Time
		err = row.Scan(&l.Status, &l.Operations, sqlkit.ScanMicros(&since))
		l.Oldest = max(now.Sub(since), 0)
		return l, err
	}, `SELECT status, COUNT(*), MIN(CASE WHEN batch_at > 0 THEN batch_at WHEN started_at > 0 THEN started_at ELSE requested_at END) FROM operations
		WHERE ended_at = 0 GROUP BY status`)
}
