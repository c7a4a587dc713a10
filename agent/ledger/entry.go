package ledger

import (
	"cmp"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// State is how far a task came on this node.
type State string

// The states, in their order.
const (
	Accepted State = "accepted"
	Started  State = "started"
	Finished State = "finished"
)

// Entry is the record of a task.
type Entry struct {
	Task       taskcatalog.Task   `json:"task"`
	Digest     string             `json:"digest"` // of the envelope
	Attempt    int                `json:"attempt"`
	State      State              `json:"state"`
	AcceptedAt time.Time          `json:"accepted_at"`
	StartedAt  time.Time          `json:"started_at,omitzero"`
	FinishedAt time.Time          `json:"finished_at,omitzero"`
	Result     wire.ResultRequest `json:"result,omitzero"`
	Reported   bool               `json:"reported"` // the broker has accepted the result, or will never accept it
	// After is set while the handler's After is still to be called once the result is reported.
	After bool `json:"after,omitempty"`
}

// Get finds a task.
func (l *Ledger) Get(taskID string) (e Entry, known bool, err error) {
	err = l.view(func(tx *bolt.Tx) (err error) {
		known, err = get(tx.Bucket(tasksBucket), taskID, &e)
		return err
	})
	return e, known, err
}

// Accept records a task before anything is done about it. Code replayed if the id is known, except
// for the same envelope that was accepted and never started: such a task may begin.
func (l *Ledger) Accept(task taskcatalog.Task, digest string, attempt int, now time.Time) error {
	return l.update(func(tx *bolt.Tx) error {
		b := tx.Bucket(tasksBucket)
		var e Entry
		known, err := get(b, task.TaskID, &e)
		if err != nil {
			return err
		}
		if known && (e.Digest != digest || e.State != Accepted) {
			return taskcatalog.Errorf(taskcatalog.CodeReplayed, "task %s was accepted before; its recorded result stands", task.TaskID)
		}
		return save(tx, &Entry{Task: task, Digest: digest, Attempt: attempt, State: Accepted, AcceptedAt: now})
	})
}

// Start records that the task begins now. Only an accepted task can start.
func (l *Ledger) Start(taskID string, now time.Time) error {
	return l.change(taskID, func(e *Entry) error {
		if e.State != Accepted {
			return taskcatalog.Errorf(taskcatalog.CodeReplayed, "task %s is %s and cannot start", taskID, e.State)
		}
		e.State, e.StartedAt = Started, now
		return nil
	})
}

// Finish records how the task ended. The first result stands.
func (l *Ledger) Finish(taskID string, result wire.ResultRequest, after bool, now time.Time) error {
	return l.change(taskID, func(e *Entry) error {
		if e.State == Finished {
			return taskcatalog.Errorf(taskcatalog.CodeReplayed, "task %s already has a result, which stands", taskID)
		}
		e.State, e.FinishedAt, e.Result, e.After = Finished, now, result, after
		return nil
	})
}

// Refuse records a refusal of a task that was never accepted, so that the same envelope is not
// admitted when the reason of the refusal no longer holds.
func (l *Ledger) Refuse(task taskcatalog.Task, digest string, result wire.ResultRequest, now time.Time) error {
	return l.update(func(tx *bolt.Tx) error {
		b := tx.Bucket(tasksBucket)
		var e Entry
		if known, err := get(b, task.TaskID, &e); known || err != nil {
			return err
		}
		return save(tx, &Entry{
			Task: task, Digest: digest, Attempt: result.Attempt, State: Finished,
			AcceptedAt: now, FinishedAt: now, Result: result,
		})
	})
}

// Delivered records that the broker delivered the task once more. A finished task is reported
// again.
func (l *Ledger) Delivered(taskID string, attempt int) error {
	return l.change(taskID, func(e *Entry) error {
		e.Attempt = max(e.Attempt, attempt)
		e.Reported = false
		return nil
	})
}

// Reported records that the broker has the result, or will never accept it.
func (l *Ledger) Reported(taskID string) error {
	return l.change(taskID, func(e *Entry) error {
		e.Reported = true
		return nil
	})
}

// AfterDone records that the handler's After is done.
func (l *Ledger) AfterDone(taskID string) error {
	return l.change(taskID, func(e *Entry) error {
		e.After = false
		return nil
	})
}

func (l *Ledger) change(taskID string, do func(*Entry) error) error {
	return l.update(func(tx *bolt.Tx) error {
		b := tx.Bucket(tasksBucket)
		var e Entry
		known, err := get(b, taskID, &e)
		if err != nil {
			return err
		}
		if !known {
			return unavailable("task %s is not in the ledger", taskcatalog.Clean(taskID, 80))
		}
		if err := do(&e); err != nil {
			return err
		}
		return save(tx, &e)
	})
}

// settled reports whether nothing is left to do about an entry except to remember it.
func (e *Entry) settled() bool { return e.State == Finished && e.Reported && !e.After }

// keepLimit is up to how many bytes of params, result, evidence and archive a settled entry keeps.
// Larger entries would take the space of later tasks.
const keepLimit = 8 << 10

// trim reduces a large settled entry to the fields that detect a replay, and the outcome.
func (e *Entry) trim() {
	if e.settled() && len(e.Task.Params)+len(e.Result.Result)+len(e.Result.Evidence)+len(e.Result.Archive) > keepLimit {
		e.Task.Params, e.Result.Result, e.Result.Evidence, e.Result.Archive = nil, nil, "", nil
	}
}

// ResultDropped reports whether a task succeeded, its result was reported once, and the ledger no
// longer has the result.
func (e *Entry) ResultDropped() bool {
	return e.State == Finished && e.Result.Outcome == taskcatalog.OutcomeSucceeded && e.Result.Evidence == ""
}

// save stores an entry and updates the index of unsettled entries.
func save(tx *bolt.Tx, e *Entry) error {
	e.trim()
	if err := put(tx.Bucket(tasksBucket), e.Task.TaskID, e); err != nil {
		return err
	}
	if e.settled() {
		return tx.Bucket(openBucket).Delete([]byte(e.Task.TaskID))
	}
	return tx.Bucket(openBucket).Put([]byte(e.Task.TaskID), nil)
}

// Open returns the unsettled entries selected by keep, the earliest accepted first.
func (l *Ledger) Open(keep func(*Entry) bool) ([]Entry, error) { return l.list(openBucket, keep) }

func (l *Ledger) list(bucket []byte, keep func(*Entry) bool) ([]Entry, error) {
	var found []Entry
	err := l.view(func(tx *bolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(k, _ []byte) error {
			var e Entry
			if _, err := get(tx.Bucket(tasksBucket), string(k), &e); err != nil {
				return err
			}
			if keep(&e) {
				found = append(found, e)
			}
			return nil
		})
	})
	slices.SortFunc(found, func(a, b Entry) int {
		return cmp.Or(a.AcceptedAt.Compare(b.AcceptedAt), cmp.Compare(a.Task.TaskID, b.Task.TaskID))
	})
	return found, err
}

// Unreported returns the results that the broker does not have yet.
func (l *Ledger) Unreported() ([]Entry, error) { return l.Open((*Entry).Unreported) }

// Unreported reports whether the entry has a result that the broker does not have.
func (e *Entry) Unreported() bool { return e.State == Finished && !e.Reported }

// retention is how long a settled entry is kept: a broker restored from a backup delivers forgotten
// tasks again, and a clock may be set back.
const retention = 24 * time.Hour

// droppable reports whether neither an entry's result nor the memory of its id is needed any more.
func (e *Entry) droppable(now time.Time) bool {
	return e.settled() && now.After(e.Task.NotAfter.Add(2*taskcatalog.ClockSkew)) && now.After(e.FinishedAt.Add(retention))
}

// Drop removes the entries no longer needed and returns how many.
func (l *Ledger) Drop(now time.Time) (int, error) {
	gone, err := l.list(tasksBucket, func(e *Entry) bool { return e.droppable(now) })
	if err != nil || len(gone) == 0 {
		return 0, err
	}
	return len(gone), l.update(func(tx *bolt.Tx) error {
		for _, e := range gone {
			if err := tx.Bucket(tasksBucket).Delete([]byte(e.Task.TaskID)); err != nil {
				return err
			}
		}
		return nil
	})
}
