package chain

import (
	"context"
	"time"
)

// Action is an operator's action on a run.
type Action string

// The actions. Each is idempotent: an action that is already under way changes nothing.
const (
	RetryStage   Action = "retry_stage"                       // the current stage again, attempts and clock from zero
	Resume       Action = "resume"                            // the same, but out of a rescue to the rescued stage
	Rerun        Action = "rerun"                             // from the first stage; Done adopts existing results
	RestartClean Action = "restart_clean"                     // undo everything, past the pivot, then from the first stage
	Cancel       Action = "cancel"                            // undo, up to the pivot
	Adopt        Action = "adopt_observed_state"              // as resume; ends reconciled
	MarkManual   Action = "mark_manual_intervention_required" // stop until a person has looked
)

// Actions lists all actions.
var Actions = []Action{RetryStage, Resume, Rerun, RestartClean, Cancel, Adopt, MarkManual}

// Act applies an operator's action to a run. Refusals are *Refused, with the codes run_not_found,
// run_ended, run_moving, run_moved, run_compensating, stage_unknown, stage_not_in_hand,
// stage_not_waivable, kind_unknown, list_unknown, action_unknown.
func (e *Engine) Act(ctx context.Context, o Order) (Record, error) {
	return e.store.Act(ctx, o, func(now time.Time, r Record) (Change, error) {
		l := e.lineOf(r)
		switch {
		case l == nil && e.lines[r.Kind] != nil:
			return Change{},
				refused("list_unknown",
					"cannot %s run %s: this broker does not know the list of stages with which the run began (start a broker that knows it, and try again)", o.Action, r.ID)
		case l == nil:
			return Change{}, refused("kind_unknown", "cannot %s run %s: this broker runs no chain %s", o.Action, r.ID, r.Kind)
		}
		m := newMove(l, e.classes, now, r.Forsaken(now))
		if err := m.act(o); err != nil {
			return Change{}, err
		}
		return m.change(), nil
	})
}

func (m *move) act(o Order) error {
	r := &m.Record
	if r.Status.Ended() {
		if o.Action == Cancel && r.Status == Cancelled {
			return m.alreadyUnderWay()
		}
		return refused("run_ended", "cannot %s run %s: the run is %s (start a new run)", o.Action, r.ID, r.Status)
	}
	if o.OnlyStopped && !r.Status.Stopped() {
		return refused("run_moving", "cannot %s run %s: the run is %s", o.Action, r.ID, r.Status)
	}
	// Checked for stopped runs only: repeating an order that was carried out does nothing.
	if o.Seen != nil && !r.Status.Moving() && r.Failure != nil && *o.Seen != (Seen{r.Stage, r.Failure.Class}) {
		return refused("run_moved", "cannot %s run %s: the run is now at %s with %s instead of %s with %s (check the run again)", o.Action,
			r.ID, r.Stage, r.Failure.Class, o.Seen.Stage, o.Seen.Class)
	}
	switch o.Action {
	case RetryStage:
		return m.retryStage(o)
	case Resume, Rerun, Adopt:
		return m.continueRun(o)
	case RestartClean:
		return m.restart(o)
	case Cancel:
		return m.cancel(o)
	case MarkManual:
		return m.mark(o)
	}
	return refused("action_unknown", "there is no action %q on runs", o.Action)
}

// retryStage applies in both directions: a failed undo is retried like any stage.
func (m *move) retryStage(o Order) error {
	r := &m.Record
	if r.Status.Moving() {
		return m.alreadyUnderWay()
	}
	s, ok := m.line.named[r.Stage]
	if !ok {
		return refused("stage_unknown", "cannot %s run %s: this broker knows no stage %s (upgrade the broker, or rerun)", o.Action, r.ID,
			r.Stage)
	}
	m.revive(s, r.Direction)
	return nil
}

// continueRun applies to runs in the forward direction.
func (m *move) continueRun(o Order) error {
	r := &m.Record
	if r.Direction == Undo {
		return refused("run_compensating", "cannot %s run %s: the run is undoing its stages, at %s (retry the undo, or restart-clean)",
			o.Action, r.ID, r.Stage)
	}
	if r.Asked == AskCancel && r.InFlight(m.now) {
		return refused("run_compensating", "cannot %s run %s: the run is cancelled as soon as its step at %s has ended (wait for this)",
			o.Action, r.ID, r.Stage)
	}
	if r.Status.Moving() {
		if o.Action == Adopt && !r.Progress.Adopted {
			return refused("run_moving", "cannot %s run %s: the run is %s (wait until the run stops)", o.Action, r.ID, r.Status)
		}
		return m.alreadyUnderWay()
	}
	s, ok := m.line.named[r.Stage]
	switch {
	case o.Action == Rerun:
		s = m.line.main[0]
		r.Progress.Adopted = false
	case !ok:
		return refused("stage_unknown", "cannot %s run %s: this broker knows no stage %s (upgrade the broker, or rerun)", o.Action, r.ID,
			r.Stage)
	case s.rescues != nil:
		s = s.rescues
	}
	if o.Without != "" {
		return m.waive(s, o)
	}
	accepts := ""
	if r.Failure != nil {
		accepts = accepted(s.name, r.Failure.Code)
	}
	m.revive(s, Forward)
	if o.Action == Adopt {
		r.Progress.Adopted, r.Progress.Accepts = true, accepts
	}
	return nil
}

// waive continues past a stage whose goal does not hold. An event and Progress.Waived record
// the waiver.
func (m *move) waive(s *stage, o Order) error {
	r := &m.Record
	switch {
	case o.Action != Resume || o.Without != r.Stage || s.name != r.Stage:
		return refused("stage_not_in_hand", "cannot continue run %s without %s: the run is at %s", r.ID, o.Without, r.Stage)
	case !s.waivable:
		return refused("stage_not_waivable", "cannot continue run %s without %s: later stages depend on this stage", r.ID, s.name)
	}
	r.Status = Pending
	r.attempt() // the failed attempt has its event
	m.succeeded(s, Skipped, "not made, by order of "+o.Actor.Name+": "+o.Reason, nil)
	r.Progress.Waived = append(r.Progress.Waived, Waiver{s.name, o.Actor.Name, bounded(o.Reason, maxReason), m.now})
	return nil
}

// revive sets a stopped run in motion again.
func (m *move) revive(s *stage, d Direction) {
	r := &m.Record
	r.Status, r.NextAction = Pending, ""
	if d == Undo {
		r.Status = Compensating
	}
	touched := r.Progress.Touched && r.Stage == s.name
	r.Progress.Accepts = ""
	m.enter(s, d)
	r.Progress.Touched = touched
}

func (m *move) restart(o Order) error {
	r := &m.Record
	switch {
	case r.Status == Compensating && r.Progress.Restart:
		return m.alreadyUnderWay()
	case r.Status.Moving():
		return refused("run_moving", "cannot %s run %s: the run is %s (cancel the run, or wait until it stops)", o.Action, r.ID, r.Status)
	}
	r.Progress.Restart, r.Progress.Adopted, r.Progress.Accepts = true, false, ""
	if r.Direction == Undo {
		return m.retryStage(o)
	}
	return m.turn()
}

// cancel turns the run to undo, or leaves the turn to the engine while a step is in flight.
func (m *move) cancel(o Order) error {
	r := &m.Record
	switch {
	case r.Status == Compensating && !r.Progress.Restart, r.Asked == AskCancel && r.InFlight(m.now):
		return m.alreadyUnderWay()
	case r.InFlight(m.now):
		m.setRequest(AskCancel, o)
		return nil
	}
	r.Asked, r.AskedBy, r.AskedCause = AskNothing, o.Actor.Name, bounded(o.Reason, maxReason)
	return m.cancelled()
}

// cancelled turns a run to undo. No step is in flight.
func (m *move) cancelled() error {
	r := &m.Record
	restart := r.Progress.Restart
	r.Progress.Restart = false
	switch {
	case r.StartedAt.IsZero():
		m.end(Cancelled)
		return nil
	case r.Direction == Undo && m.beforePivot():
		m.end(Cancelled) // restart_clean got no further
		return nil
	case r.Direction == Undo && r.Status.Moving():
		return nil // the run continues its undo and then ends
	case r.Direction == Undo && restart:
		return m.retryStage(Order{Action: Cancel})
	case r.Direction == Undo:
		return refused("run_compensating", "cannot cancel run %s: the undo failed at %s (retry the run)", r.ID, r.Stage)
	}
	return m.turn()
}

func (m *move) mark(o Order) error {
	r := &m.Record
	switch {
	case r.Status == FailedManual && (o.Says == nil || r.Failure != nil && r.Failure.Code == o.Says.Code),
		r.Asked == AskMark && r.InFlight(m.now):
		return m.alreadyUnderWay()
	case m.line.marking != nil && (r.Direction == Undo || r.Asked == AskCancel && r.InFlight(m.now)):
		return refused("run_compensating",
			"cannot %s run %s: the run is undoing its stages, at %s (wait until the undo has ended; if it has failed, retry the run)",
			o.Action, r.ID, r.Stage)
	case r.InFlight(m.now):
		m.setRequest(AskMark, o)
		return nil
	}
	r.Asked, r.AskedBy, r.AskedCause = AskNothing, o.Actor.Name, bounded(o.Reason, maxReason)
	if o.Says == nil {
		m.marks(r.AskedCause)
		return nil
	}
	m.marked(r.AskedCause)
	r.Failure.Code, r.NextAction = o.Says.Code, o.Says.Next
	if m.was == FailedManual { // the new advice is announced again
		m.Messages = append(m.Messages, r.message(words[FailedManual]))
	}
	return nil
}

// marks stops a run on an operator's order, or has the run's own stages stop the run.
func (m *move) marks(why string) {
	r := &m.Record
	s, known := m.line.named[r.Stage]
	if m.line.marking == nil || !known {
		m.marked(why)
		return
	}
	state, err := m.line.marking(r.State, why)
	if err != nil { // the state is of another version: the run cannot go on here in any case
		m.marked(why)
		return
	}
	r.State, r.DueAt = state, m.now
	if r.Status.Stopped() {
		m.revive(s, Forward)
	}
}

// alreadyUnderWay is the result of an action that is already under way.
func (m *move) alreadyUnderWay() error {
	m.Nothing = true
	return nil
}

func (m *move) setRequest(what Ask, o Order) {
	m.Beside = true
	m.Record.Asked, m.Record.AskedBy, m.Record.AskedCause = what, o.Actor.Name, bounded(o.Reason, maxReason)
}
