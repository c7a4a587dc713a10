package chain

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// Status is the status of a run (docs/reference/states.md has the drawing).
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

// Moving reports whether the engine will claim the run without an operator.
func (s Status) Moving() bool { return s == Pending || s == Running || s == Compensating }

// Stopped reports whether the run waits for an operator's action.
func (s Status) Stopped() bool { return s == FailedRetryable || s == FailedManual }

// Ended reports whether the run is over; an ended run has no locks.
func (s Status) Ended() bool { return s == Completed || s == Cancelled || s == Reconciled }

// Direction is a run's direction, whatever its status.
type Direction string

// The directions.
const (
	Forward Direction = "forward"
	Undo    Direction = "undo"
)

// Ask is an operator's request during a step in flight.
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

	// List names the list of stages that the run follows; empty: the run is older than list
	// names.
	List string

	Status    Status
	Stage     string // the cursor; of an ended run, the stage where it ended
	Direction Direction
	Attempt   int // at the cursor
	Progress  Progress
	State     json.RawMessage

	EnteredAt time.Time // when the current stage began; zero: not yet
	DueAt     time.Time
	Version   int64
	Owner     string // of the lease
	LeaseTill time.Time

	Held      bool      // the run's own last step could not reach the site
	Waiting   string    // the reason for waiting
	HeldSince time.Time // of the hold that the run waits for; computed on read
	Probe     bool      // the site is unreachable, and this claim tests the site; not stored

	Asked               Ask
	AskedBy, AskedCause string // last requester of a cancel or a mark, with the reason

	Failure    *Failure // of the last attempt, until its stage succeeds
	NextAction string

	RequestedBy                                    string
	RequestedAt, StartedAt, CompletedAt, UpdatedAt time.Time
}

// Progress is the progress of a run beyond its cursor.
type Progress struct {
	Begun   bool           `json:"begun,omitempty"`   // the attempt has its event started
	Touched bool           `json:"touched,omitempty"` // the stage was called since the cursor came to it
	Lost    int            `json:"lost,omitempty"`    // times the attempt was claimed and not saved
	Spent   int            `json:"spent,omitempty"`   // failed attempts that the policy counts
	Reached string         `json:"reached,omitempty"` // the furthest stage of the main line
	Tries   map[string]int `json:"tries,omitempty"`   // attempts by stage, and stage/undo
	Restart bool           `json:"restart,omitempty"` // after the undo, forward again
	Adopted bool           `json:"adopted,omitempty"` // ends reconciled
	Accepts string         `json:"accepts,omitempty"` // stage/code of the failure that an operator has just accepted
	Waived  []Waiver       `json:"waived,omitempty"`  // stages that operators waived
	LostAt  time.Time      `json:"lost_at,omitzero"`  // latest time at which an unsaved step may have been at work
}

// Waiver records a stage that an operator let a run continue without: the stage's goal does not
// hold.
type Waiver struct {
	Stage  string    `json:"stage"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// InFlight reports whether a step may be running.
func (r *Record) InFlight(now time.Time) bool { return r.Owner != "" && now.Before(r.LeaseTill) }

// Stamped sets the times of a run at the moment of writing, rather than of computing the change.
// Stores call Stamped when they hold everything that the transaction waits for.
func (r Record) Stamped(now time.Time) Record {
	r.UpdatedAt = now
	if r.Status.Ended() {
		r.CompletedAt = now // an ended run is never written again, so this write ends it
	}
	return r
}

// Forsaken records in Progress.LostAt the end of an expired lease: the step's work is unknown,
// and this is its latest time. The next lease would overwrite LeaseTill.
func (r Record) Forsaken(now time.Time) Record {
	if r.Owner != "" && !r.InFlight(now) {
		r.Progress.LostAt = r.LeaseTill
	}
	return r
}

// Urged makes a run due at once, for a request that arrived during the step that is saved now:
// the engine then carries out the request. Stores call Urged.
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
	r.attempt() // the previous attempt has ended
	return r
}

// TooLate is the event for a request that arrived during the step that ended the run. Stores
// write the event and clear the request; false: the run ended as requested.
func (r Record) TooLate(asked Ask, by string) (Event, bool) {
	return Event{
		Direction: r.Direction, Status: Skipped,
		Message: bounded(fmt.Sprintf("the action %s, requested by %s, came too late: the run is %s", asked, by, r.Status), maxMessage),
	}, asked != AskCancel || r.Status != Cancelled
}

// attempt makes the next call the first of a new attempt.
func (r *Record) attempt() {
	key := r.Stage
	if r.Direction == Undo {
		key += "/undo"
	}
	r.Progress.Tries[key]++
	r.Attempt, r.Progress.Begun, r.Progress.Lost = r.Progress.Tries[key], false, 0
}

// EventStatus is the status of an attempt in an event.
type EventStatus string

// The event statuses.
const (
	Started     EventStatus = "started"
	Succeeded   EventStatus = "succeeded"
	Failed      EventStatus = "failed"
	Compensated EventStatus = "compensated"
	Skipped     EventStatus = "skipped"
)

// Event is a line of a run's history.
type Event struct {
	ID        int64 // in the order of writing
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
