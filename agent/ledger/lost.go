package ledger

import (
	"errors"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/hostler/hostler/taskcatalog"
)

const lostMark = "lost_until"

// RecordLoss records in the ledger of a state directory that it replaces a ledger with more
// entries: tasks until this moment may be missing. No agent may run.
func RecordLoss(dir string, until time.Time) error {
	l, err := Open(dir)
	if err != nil {
		return err
	}
	err = l.update(func(tx *bolt.Tx) error { return put(tx.Bucket(marksBucket), lostMark, until) })
	return errors.Join(err, l.Close())
}

// MayHaveRun reports whether a task unknown to the ledger may have run: it was issued before the
// moment until which entries may be missing. The time of issue is by the broker's clock, which may
// be ahead of this node's: within the allowed skew an attempt above 1 also counts.
func (l *Ledger) MayHaveRun(t *taskcatalog.Task, attempt int) (may bool, err error) {
	err = l.view(func(tx *bolt.Tx) error {
		var until time.Time
		lost, err := get(tx.Bucket(marksBucket), lostMark, &until)
		may = lost && (t.IssuedAt.Before(until) || attempt > 1 && t.IssuedAt.Before(until.Add(taskcatalog.ClockSkew)))
		return err
	})
	return may, err
}
