package chain

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// Status is how a run stands (docs/reference/states.md has the drawing).
type Status string

// The statuses.
const (
	Pending         Status = "pending"
	Running         Status = "running"
	Completed       Status = "completed"
	FailedRetryable Status = "failed_retryable"
	FailedManual    Status = "failed_manual_intervention"
	Cancelled       Status = "cancelled"
	Compensating    Status = "compensating"
	Reconciled      Status = "reconciled"
)

// Moving reports whether the engine will claim the run by itself.
func (s Status) Moving() bool { return s == Pending || s == Running || s == Compensating }

// Stopped reports whether the run waits for an operator's action.
func (s Status) Stopped() bool { return s == FailedRetryable || s == FailedManual }

// Ended reports whether the run is over; then it has no locks.
func (s Status) Ended() bool { return s == Completed || s == Cancelled || s == Reconciled }

// Direction is which way a run goes, whatever its status.
type Direction string

// The directions.
const (
	Forward Direction = "forward"
	Undo    Direction = "undo"
)

// Ask is what an operator asked for while a step was in flight.
type Ask string

// The asks.
const (
	AskNothing Ask = ""
	AskCancel  Ask = "cancel"
	AskMark    Ask = "mark_manual_intervention_required"
)

// Record is a run as it is stored.
type Record struct {
	ID, Kind, Site, Batch, Subject, CorrelationID string

	// List names the list of stages that the run began with, and goes on by; empty: it
	// began before that was kept.
	List string

	Status    Status
	Stage     string // the cursor; where the run ended, for one that has
	Direction Direction
	Attempt   int // at the cursor
	Progress  Progress
	State     json.RawMessage

	EnteredAt time.Time // when the cursor's stage began; zero: not yet
	DueAt     time.Time
	Version   int64
	Owner     string // of the lease
	LeaseTill time.Time

	Held      bool      // its own last step could not reach the site
	Waiting   string    // why it is not going on just now
	HeldSince time.Time // of the hold it waits for; worked out when it is read
	Probe     bool      // its site is unreachable, and this claim is to find out whether it still is; not stored

	Asked               Ask
	AskedBy, AskedCause string // who asked last for a cancel or a mark, and why

	Failure    *Failure // of the last attempt, until its stage succeeds
	NextAction string

	RequestedBy                                    string
	RequestedAt, StartedAt, CompletedAt, UpdatedAt time.Time
}

// Progress is how far a run has come beyond its cursor.
type Progress struct {
	Begun   bool           `json:"begun,omitempty"`   // the attempt has its event started
	Touched bool           `json:"touched,omitempty"` // the stage was called since the cursor came to it
	Lost    int            `json:"lost,omitempty"`    // times it was claimed in this attempt and not saved
	Spent   int            `json:"spent,omitempty"`   // failed attempts that the policy counts
	Reached string         `json:"reached,omitempty"` // the furthest stage of the main line
	Tries   map[string]int `json:"tries,omitempty"`   // attempts by stage, and stage/undo
	Restart bool           `json:"restart,omitempty"` // when undone, forward again
	Adopted bool           `json:"adopted,omitempty"` // ends reconciled
	Accepts string         `json:"accepts,omitempty"` // stage/code of what an operator has just accepted
	Waived  []Waiver       `json:"waived,omitempty"`  // what operators had the run go on without
	LostAt  time.Time      `json:"lost_at,omitzero"`  // until when a step may have been at work whose end was never saved, the last of them
}

// Waiver is a stage that an operator had a run go on without: its goal does not hold.
type Waiver struct {
	Stage  string    `json:"stage"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// InFlight reports whether a step may be running.
func (r *Record) InFlight(now time.Time) bool { return r.Owner != "" && now.Before(r.LeaseTill) }

// Stamped is a run as it is written now: its times are those of the row, and not of
// whoever worked out what to write. Stores call it when they have all that a
// transaction waits for.
func (r Record) Stamped(now time.Time) Record {
	r.UpdatedAt = now
	if r.Status.Ended() {
		r.CompletedAt = now // nothing becomes of it any more, so it is this that ends it
	}
	return r
}

// Forsaken is a run with word of the step that was in flight, if its lease is over:
// what it did is not known, and neither when, but for that. The next lease would
// write over it.
func (r Record) Forsaken(now time.Time) Record {
	if r.Owner != "" && !r.InFlight(now) {
		r.Progress.LostAt = r.LeaseTill
	}
	return r
}

// Urged is a run of which something was asked while the step was in flight that
// made it what it is: it goes on at once, so that the engine can do it. Stores
// call it.
func (r Record) Urged(now time.Time) Record {
	r.DueAt = now
	if !r.Status.Stopped() {
		return r
	}
	r.Status = Running
	if r.Direction == Undo {
		r.Status = Compensating
	}
	r.Progress.Tries = maps.Clone(r.Progress.Tries)
	r.attempt() // the one before has ended
	return r
}

// TooLate is the event of a run that ended with the step during which something
// was asked of it. Stores call it, and forget what was asked; false: it ended as
// was asked.
func (r Record) TooLate(asked Ask, by string) (Event, bool) {
	return Event{
		Direction: r.Direction, Status: Skipped,
		Message: bounded(fmt.Sprintf("%s came too late, asked for by %s: the run is %s", asked, by, r.Status), maxMessage),
	}, asked != AskCancel || r.Status != Cancelled
}

// attempt makes the next call one of a new attempt.
func (r *Record) attempt() {
	key := r.Stage
	if r.Direction == Undo {
		key += "/undo"
	}
	r.Progress.Tries[key]++
	r.Attempt, r.Progress.Begun, r.Progress.Lost = r.Progress.Tries[key], false, 0
}

// EventStatus is what an event says of an attempt.
type EventStatus string

// What events say.
const (
	Started     EventStatus = "started"
	Succeeded   EventStatus = "succeeded"
	Failed      EventStatus = "failed"
	Compensated EventStatus = "compensated"
	Skipped     EventStatus = "skipped"
)

// Event is a line of a run's history.
type Event struct {
	ID        int64 // in the order in which they were written
	RunID     string
	At        time.Time
	Stage     string
	Direction Direction
	Attempt   int
	Status    EventStatus
	Message   string
	Details   json.RawMessage // nil: none
}

// Message is a line of the outbox.
type Message struct {
	Type    string // node.onboarding.started
	Subject string // node/n-1, run/r-1
	Data    any    // JSON
}
