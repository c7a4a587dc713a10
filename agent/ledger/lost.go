package ledger

import (
	"errors"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/hostler/hostler/taskcatalog"
)

const lostMark = "lost_until"

// Lost notes in the ledger of a state directory that it was put in the place of one that
// knew of more: of what was done until a moment it knows nothing. No agent may run.
func Lost(dir string, until time.Time) error {
	l, err := Open(dir)
	if err != nil {
		return err
	}
	err = l.update(func(tx *bolt.Tx) error { return put(tx.Bucket(marksBucket), lostMark, until) })
	return errors.Join(err, l.Close())
}

// MayHaveRun reports whether a task that the ledger does not know may have run all the
// same: it was issued before the moment until which the ledger was lost. The clock is the
// broker's, and may be ahead of this one: then its word counts that it was delivered before.
func (l *Ledger) MayHaveRun(t *taskcatalog.Task, attempt int) (may bool, err error) {
	err = l.view(func(tx *bolt.Tx) error {
		var until time.Time
		lost, err := get(tx.Bucket(marksBucket), lostMark, &until)
		may = lost && (t.IssuedAt.Before(until) || attempt > 1 && t.IssuedAt.Before(until.Add(taskcatalog.ClockSkew)))
		return err
	})
	return may, err
}
