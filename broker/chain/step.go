package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// Step claims one due run, calls one function of one stage, and saves the outcome. worked is
// false when no run was due. An error means that nothing was saved: the run is claimed again
// after its lease.
func (e *Engine) Step(ctx context.Context) (worked bool, err error) {
	t := newTrust(ctx, e.Lease)
	defer t.end()
	r, err := e.store.Claim(t, Claim{Owner: e.Owner, Lease: e.Lease, Kinds: e.kinds, Lists: e.known})
	if err != nil || r == nil {
		return false, err
	}
	s := &step{Engine: e, trust: t, line: e.lineOf(*r), was: *r}
	if err := s.run(); err != nil {
		return true, fmt.Errorf("run %s at %s: %w", r.ID, r.Stage, err)
	}
	return true, nil
}

// maxLost is how often an attempt may begin without a save: a stage that kills the broker must
// not do so for ever.
const maxLost = 5

// step is one call, from the claim to the save.
type step struct {
	*Engine
	trust *leaseGuard
	line  *line
	was   Record // as it was claimed
	stage *stage
	call  *call
	out   output
}

func (s *step) run() (err error) {
	// A panic outside a stage's call would recur in every broker.
	defer func() {
		if p := recover(); p != nil {
			s.was.Progress.LostAt = s.store.Now()
			err = s.save(s.unknown("stage_panicked", "cannot determine what follows stage %s: %v (its Retry or Limit panics)", s.was.Stage,
				p))
		}
	}()
	if s.line == nil {
		s.line = s.lines[s.was.Kind] // used only to stop the run
		return s.save(s.unknown("list_unknown",
			"this broker knows no list %s of %s, with which the run began (start a broker that knows it, and resume or cancel the run there)", s.was.List, s.was.Kind))
	}
	if s.was.Asked != AskNothing {
		return s.save(s.honour())
	}
	var ok bool
	if s.stage, ok = s.line.named[s.was.Stage]; !ok {
		return s.save(s.unknown("stage_unknown", "this broker knows no stage %s (upgrade the broker, or rerun)", s.was.Stage))
	}
	if n := s.was.Progress.Lost; n > maxLost {
		return s.save(s.unknown("step_lost",
			"stage %s was started %d times, and its end was never recorded (check whether the stage crashes the broker)", s.was.Stage, n))
	}
	s.out.since, s.out.clock = s.since, s.store.Now
	if s.call, err = s.line.open(&s.was, &s.out); err != nil {
		return s.save(s.unknown("state_unreadable", "this broker cannot read the run's state: %v (upgrade the broker)", err))
	}
	status, said := s.callStage()
	if f, ok := said.(*Failure); ok && f == nil {
		said = nil // a typed nil is no failure
	}
	switch {
	case s.trust.lost():
		return ErrLost
	case said != nil && s.trust.Err() != nil:
		// Cut off by a stop: the outcome is unknown, and the attempt continues at the next claim.
		s.was.Progress.LostAt = s.store.Now()
		return s.save(Change{Record: s.was})
	}
	c, err := s.outcome(status, said)
	if err != nil {
		return err
	}
	err = s.save(c)
	if refusal := refusalOf(err); refusal != nil {
		s.out = output{} // refused with everything that the step asked for
		if c, err = s.outcome("", refusal); err == nil {
			err = s.save(c)
		}
	}
	return err
}

// save may still run when the step's own time is over: the fence decides.
func (s *step) save(c Change) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.trust.Context), margin)
	defer cancel()
	c.SameState = bytes.Equal(c.Record.State, s.was.State)
	return s.store.Save(ctx, c)
}

func (s *step) move() *move { return newMove(s.line, s.classes, s.store.Now(), s.was) }

// honour carries out an operator's request from the time of the previous step.
func (s *step) honour() Change {
	m := s.move()
	m.Honoured = s.was.Asked
	if s.was.Asked == AskMark {
		m.marks(s.was.AskedCause)
	} else if err := m.cancelled(); err != nil {
		m.unknown("stage_unknown", "%v", err)
	}
	return m.change()
}

func (s *step) unknown(code, format string, args ...any) Change {
	m := s.move()
	m.unknown(code, format, args...)
	return m.change()
}

// callStage calls the stage and renews the lease meanwhile.
func (s *step) callStage() (status EventStatus, said error) {
	renewed := make(chan struct{})
	ctx, cancel := context.WithTimeout(s.trust, s.MaxCall)
	go func() {
		defer close(renewed)
		s.trust.keep(ctx, func(ctx context.Context) error { return s.store.Renew(ctx, &s.was, s.Lease) }, s.Lease/3)
	}()
	defer func() {
		cancel()
		<-renewed
		if p := recover(); p != nil {
			status, said = "", Fail(UpstreamTransient, "stage %s panicked: %v", s.stage.name, p).With("stage_panicked", nil)
		}
	}()
	if s.was.Probe && s.line.probe != nil {
		if err := s.line.probe(ctx, s.call); err != nil {
			return "", err
		}
		s.out.reached = true
	}
	if s.was.Direction == Undo {
		if s.stage.takeBack == nil {
			return Compensated, nil // the stage had an Undo when the cursor was put here
		}
		return Compensated, s.stage.takeBack(ctx, s.call)
	}
	if s.stage.look != nil {
		if done, err := s.stage.look(ctx, s.call); err != nil || done {
			return Skipped, err
		}
	}
	if err := s.stage.work(ctx, s.call); err != nil || !s.out.skipped {
		return Succeeded, err
	}
	return Skipped, nil
}

// outcome is the change that follows from the stage's result.
func (s *step) outcome(status EventStatus, said error) (Change, error) {
	m := s.move()
	state, err := s.call.state()
	if err != nil {
		m.unknown("state_unwritable", "the run's state has no JSON form: %v", err)
		return m.change(), nil
	}
	m.Record.Progress.Lost = 0
	m.Record.State, m.Effects, m.Messages, m.Locks = state, s.out.effects, s.out.messages, s.out.locks
	if h, ok := errors.AsType[*hold](said); ok {
		m.Record.Held, m.Record.Waiting, m.Record.DueAt, m.Unreachable = true, h.reason, m.now, h.reason
		return m.change(), nil
	}
	m.Reached, m.Record.Held, m.Record.Waiting = s.was.Probe && (s.was.Held || s.out.reached), false, ""
	if s.out.startOver && s.was.Direction == Forward {
		m.Record.Progress.Reached = orDefault(s.stage.rescues, s.stage).name
	}
	switch limit := s.stage.limit(s.call); {
	case said == nil && s.was.Direction == Undo:
		m.compensated(s.stage, s.out.note, s.out.details)
	case said == nil:
		m.succeeded(s.stage, status, s.out.note, s.out.details)
	default:
		deadline, err := s.deadline(m.now, limit)
		if err != nil {
			return Change{}, err
		}
		s.retryLater(m, said, limit, deadline)
	}
	return m.change(), nil
}

// retryLater handles Again, or a failure, before or at the stage's limit.
func (s *step) retryLater(m *move, said error, limit Limit, deadline time.Time) {
	late := !deadline.IsZero() && !m.now.Before(deadline)
	over := Failure{Class: orDefault(limit.Class, UpstreamTransient), Code: orDefault(limit.Code, "timed_out"), next: limit.Next}
	if a, ok := errors.AsType[*again](said); ok {
		if late {
			over.Message = bounded(fmt.Sprintf("not within %v: %s", limit.After, a.reason), maxMessage)
			if a.class != "" && s.stage.rescues == nil {
				over.Class, over.Code = a.class, "timed_out"
			}
			m.failed(s.stage, s.describeFailure(over), Retry{}, true)
			return
		}
		m.Record.Waiting, m.Record.DueAt = a.reason, earlier(m.now.Add(a.after), deadline)
		return
	}
	f, retry := failure(said), s.stage.retry(s.call)
	if limit.After == 0 && retry.Attempts == Unlimited {
		retry.Attempts = 1
	}
	if late && s.classes.of(f.Class).Retry {
		over.Message, over.Details = bounded(fmt.Sprintf("not within %v, last: %s", limit.After, f.Message), maxMessage), f.Details
		f = over
	}
	m.failed(s.stage, s.describeFailure(f), retry, late)
	if m.Record.Stage == s.stage.name && m.Record.Status.Moving() && !m.Record.EnteredAt.IsZero() {
		m.Record.DueAt = earlier(m.Record.DueAt, deadline)
	}
}

// describeFailure is a failure with the additions of the chain's Failing. An error, a panic or a
// timeout of Failing never prevents the record.
func (s *step) describeFailure(f Failure) (_ Failure) {
	if s.line.failing == nil || s.was.Direction == Undo {
		return f
	}
	ctx, cancel := context.WithTimeout(s.trust, FailingTime)
	defer cancel()
	out := make(chan map[string]any, 1)
	go func() {
		var more map[string]any
		defer func() {
			if recover() != nil {
				more = nil
			}
			out <- more
		}()
		more = s.line.failing(ctx, s.call, f)
	}()
	select {
	case more := <-out:
		f.add(more)
	case <-ctx.Done():
	}
	return f
}

// deadline is the end of the stage's time; zero: never. Times of holds at its site do not count.
func (s *step) deadline(now time.Time, limit Limit) (time.Time, error) {
	if limit.After == 0 {
		return time.Time{}, nil
	}
	deadline := s.was.EnteredAt.Add(limit.After)
	if now.Before(deadline) {
		return deadline, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.trust.Context), margin)
	defer cancel()
	holds, err := s.store.Holds(ctx, s.was.Site, s.was.EnteredAt)
	return deadline.Add(HeldTime(holds, s.was.EnteredAt, now)), err
}

// since implements Run.Since.
func (s *step) since(ctx context.Context, t time.Time) (time.Duration, error) {
	holds, err := s.store.Holds(ctx, s.was.Site, t)
	return s.was.UpdatedAt.Sub(t) - HeldTime(holds, t, s.was.UpdatedAt), err
}

// earlier is a, or b if b is set and before a.
func earlier(a, b time.Time) time.Time {
	if !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// refusalOf is the failure for a refused save; nil: the save was not refused.
func refusalOf(err error) error {
	if l, ok := errors.AsType[*Locked](err); ok {
		return Fail(StateAmbiguity, "cannot take a lock: %w", l).With("locked", nil)
	}
	if e, ok := errors.AsType[*EffectRefused](err); ok {
		return e.Err
	}
	return nil
}
