package chain

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Run is what a stage sees of its run. State is saved with the step, whatever
// the step returns; so are the effects, messages and locks that it asked for,
// in the same transaction. What is saved never comes twice, but a step whose save
// was lost is called again.
type Run[S any] struct {
	ID, Site, Batch, Subject, CorrelationID string

	Stage       string
	Attempt     int  // of this stage in this run, from 1; undo counts apart
	Spent       int  // of its retries, since the run came to it
	Undoing     bool // the call is an Undo
	Restarting  bool // when all is taken back, the run goes forward again (restart_clean)
	Adopted     bool // an operator accepted what is there (adopt_observed_state)
	RequestedBy string
	RequestedAt time.Time
	EnteredAt   time.Time // when this stage was entered
	Now         time.Time // when this step was claimed, by the store's clock

	// LostAt is until when a step of this run may have been at work last of which
	// nothing was saved, because its broker died or was cut off: what it asked others
	// to do may still be under way. By the store's clock; zero: there was none.
	LostAt time.Time

	// Waived are the stages that operators had the run go on without. One that the run
	// has gone through since, from the ground, is not among them any more.
	Waived []Waiver

	// Failure is that of the attempt before, or in a rescue that of the stage it
	// rescues. Nil where there is none.
	Failure *Failure

	State S

	accepts string // stage/code
	out     *output
	since   func(context.Context, time.Time) (time.Duration, error)
	clock   func() time.Time
}

// output is what a step asked for.
type output struct {
	since    func(context.Context, time.Time) (time.Duration, error) // of the engine
	clock    func() time.Time                                        // of the store
	effects  []any
	messages []Message
	locks    []string
	reached  bool
	anew     bool
	skipped  bool
	note     string
	details  json.RawMessage
}

// Key is the idempotency key of this attempt: run/stage/attempt. It is the same
// for each call of one attempt, and for no other attempt ever.
func (r *Run[S]) Key() string {
	if r.Undoing {
		return fmt.Sprintf("%s/%s/undo/%d", r.ID, r.Stage, r.Attempt)
	}
	return fmt.Sprintf("%s/%s/%d", r.ID, r.Stage, r.Attempt)
}

// Accepts reports whether what an operator has accepted last (adopt_observed_state) is
// a failure of this stage with that code, and nobody has had the run go on otherwise
// since. Adopted stays for all that comes; this does not.
func (r *Run[S]) Accepts(code string) bool {
	return r.Adopted && r.accepts == accepted(r.Stage, code)
}

func accepted(stage, code string) string { return stage + "/" + code }

// Since is how long ago that was, less what the site stood still meanwhile: what a
// stage waited for in a freeze or an outage could not come. A clock of a stage's own
// is read by it, as the engine reads that of its limit.
func (r *Run[S]) Since(ctx context.Context, t time.Time) (time.Duration, error) {
	return r.since(ctx, t)
}

// Clock is what time it is by now, by the store's clock, as Now and LostAt are. What a
// step keeps of times it takes from here: the next one may be another broker's.
func (r *Run[S]) Clock() time.Time { return r.clock() }

// Apply adds effects: plain data that the store knows how to apply. One that is
// refused fails the attempt, and nothing of the step is applied.
func (r *Run[S]) Apply(effects ...any) { r.out.effects = append(r.out.effects, effects...) }

// Reached says that the run's site has answered. While the site counts as
// unreachable that ends it; a step that asked the site nothing, and was not held
// itself, proves nothing.
func (r *Run[S]) Reached() { r.out.reached = true }

// Anew says that the stage does its work from the ground, because what the run had
// come to by it is no more. What an earlier pass reached behind it does not count
// then: a pivot that it passed is not passed any more.
func (r *Run[S]) Anew() { r.out.anew = true }

// Publish adds a message to the outbox.
func (r *Run[S]) Publish(m Message) { r.out.messages = append(r.out.messages, m) }

// Lock takes a lock with the save of this step. If a live run has it, the
// attempt fails with code locked. One that this run has already is no matter.
func (r *Run[S]) Lock(name string) { r.out.locks = append(r.out.locks, name) }

// AlreadySo says that what a Do found makes its work needless: with nil it is
// recorded as skipped, like a stage whose Done says so. Why, the details and the
// message say.
func (r *Run[S]) AlreadySo(details any, format string, args ...any) {
	r.out.skipped = true
	r.Note(details, format, args...)
}

// Note is the message of the event that this step writes, with details that
// become JSON, or nil. Again writes no event.
func (r *Run[S]) Note(details any, format string, args ...any) {
	r.out.note, r.out.details = fmt.Sprintf(format, args...), detail(details)
}
