package chain

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Run is a stage's view of its run. State is saved with the step, whatever the step returns.
// Effects, messages and locks that the step asked for are saved in the same transaction. Saved
// work is never repeated, but a step whose save was lost is called again.
type Run[S any] struct {
	ID, Site, Batch, Subject, CorrelationID string

	Stage       string
	Attempt     int  // of this stage in this run, from 1; undo counts separately
	Spent       int  // failed attempts since the run came to the stage, or an operator's retry
	Undoing     bool // the call is an Undo
	Restarting  bool // after the undo, the run goes forward again (restart_clean)
	Adopted     bool // an operator accepted the present state (adopt_observed_state)
	RequestedBy string
	RequestedAt time.Time
	EnteredAt   time.Time // when this stage was entered
	Now         time.Time // when this step was claimed, by the store's clock

	// LostAt is the latest time at which an unsaved step of this run may have been at work,
	// because its broker died or was cut off. Work that such a step requested may still be under
	// way. By the store's clock; zero: no step was lost.
	LostAt time.Time

	// Waived lists the stages that operators let the run continue without. A stage that has
	// succeeded since is no longer listed.
	Waived []Waiver

	// Failure is the failure of the previous attempt; in a rescue, of the rescued stage. Nil:
	// none.
	Failure *Failure

	State S

	accepts string // stage/code
	out     *output
	since   func(context.Context, time.Time) (time.Duration, error)
	clock   func() time.Time
}

// output holds the requests of a step.
type output struct {
	since     func(context.Context, time.Time) (time.Duration, error) // of the engine
	clock     func() time.Time                                        // of the store
	effects   []any
	messages  []Message
	locks     []string
	reached   bool
	startOver bool
	skipped   bool
	note      string
	details   json.RawMessage
}

// Key is the idempotency key of this attempt: run/stage/attempt. The key is the same for each
// call of one attempt, and for no other attempt ever.
func (r *Run[S]) Key() string {
	if r.Undoing {
		return fmt.Sprintf("%s/%s/undo/%d", r.ID, r.Stage, r.Attempt)
	}
	return fmt.Sprintf("%s/%s/%d", r.ID, r.Stage, r.Attempt)
}

// Accepts reports whether an operator's last action accepted (adopt_observed_state) a failure of
// this stage with the given code. Adopted stays set as the run goes on; Accepts ends with the
// next action, or when the same failure recurs.
func (r *Run[S]) Accepts(code string) bool {
	return r.Adopted && r.accepts == accepted(r.Stage, code)
}

func accepted(stage, code string) string { return stage + "/" + code }

// Since is the time since t, less the holds of the site in that time: awaited results could not
// arrive during a freeze or an outage. A stage's own clock uses Since, as the engine does for
// limits.
func (r *Run[S]) Since(ctx context.Context, t time.Time) (time.Duration, error) {
	return r.since(ctx, t)
}

// Clock is the present time by the store's clock, as for Now and LostAt. A step stores only times
// of this clock: another broker may run the next step.
func (r *Run[S]) Clock() time.Time { return r.clock() }

// Apply adds effects: plain data that the store knows how to apply. A refused effect fails the
// attempt, and nothing of the step is applied.
func (r *Run[S]) Apply(effects ...any) { r.out.effects = append(r.out.effects, effects...) }

// Reached says that the run's site has answered, which lifts an unreachable hold. A step that
// made no call to the site, and was not held itself, proves nothing.
func (r *Run[S]) Reached() { r.out.reached = true }

// StartOver says that the stage repeats its work from scratch, because its earlier result no longer
// exists. Later stages of an earlier pass then no longer count as reached: a passed pivot is not
// passed any more.
func (r *Run[S]) StartOver() { r.out.startOver = true }

// Publish adds a message to the outbox.
func (r *Run[S]) Publish(m Message) { r.out.messages = append(r.out.messages, m) }

// Lock takes a lock with the save of this step. If another live run holds the lock, the attempt
// fails with code locked. A lock already held by this run is allowed.
func (r *Run[S]) Lock(name string) { r.out.locks = append(r.out.locks, name) }

// AlreadyDone says that Do found its work already done: with a nil result the stage is recorded as
// skipped, as if Done held. The details and the message give the reason.
func (r *Run[S]) AlreadyDone(details any, format string, args ...any) {
	r.out.skipped = true
	r.Note(details, format, args...)
}

// Note sets the message of the event that this step writes. details become JSON; nil: none. Again
// writes no event.
func (r *Run[S]) Note(details any, format string, args ...any) {
	r.out.note, r.out.details = fmt.Sprintf(format, args...), detail(details)
}
