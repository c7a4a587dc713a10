package chain

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Begin is a run after a claim: leased, running, and with the attempt's event started if this is
// the attempt's first call. Stores call Begin; stores get all other changes ready-made.
func (r Record) Begin(owner string, lease time.Duration, now time.Time) Change {
	c := Change{Record: r.Forsaken(now)}
	b := &c.Record
	b.Version++
	if r.Owner != "" {
		b.Progress.Lost++ // the previous lease expired
	}
	b.Owner, b.LeaseTill, b.UpdatedAt = owner, now.Add(lease), now
	if b.Status == Pending {
		b.Status = Running
	}
	if b.StartedAt.IsZero() {
		b.StartedAt = now
		c.Messages = append(c.Messages, b.message("started"))
	}
	if r.Asked != AskNothing {
		return c // the request is done first, and no stage is called
	}
	if b.EnteredAt.IsZero() {
		b.EnteredAt = now
	}
	if !b.Progress.Begun {
		b.Progress.Begun, b.Progress.Touched = true, true
		c.Events = append(c.Events, b.event(Started, "", nil))
	}
	return c
}

func (r *Record) event(status EventStatus, message string, details json.RawMessage) Event {
	return Event{
		Stage: r.Stage, Direction: r.Direction, Attempt: r.Attempt, Status: status, Message: bounded(message, maxMessage),
		Details: details,
	}
}

// words maps statuses to the messages about a run.
var words = map[Status]string{
	Completed: "completed", FailedRetryable: "failed", FailedManual: "manual_intervention_required",
	Cancelled: "cancelled", Compensating: "compensating", Reconciled: "reconciled",
}

// Types lists the message types for runs and batches of a kind.
func Types(kind string) []string {
	types := []string{prefix(kind) + ".started", Batch{Kind: kind}.Stopped().Type}
	for _, word := range words {
		types = append(types, prefix(kind)+"."+word)
	}
	slices.Sort(types)
	return types
}

// prefix is the message prefix for runs of a kind.
func prefix(kind string) string {
	before, _, _ := strings.Cut(kind, "/")
	return before
}

func (r *Record) message(word string) Message {
	data := map[string]any{
		"run_id": r.ID, "site": r.Site, "batch_id": r.Batch, "subject": r.Subject, "status": r.Status, "stage": r.Stage,
		"attempt": r.Attempt,
	}
	if r.Failure != nil {
		data["failure_class"], data["error_code"], data["error_message"] = r.Failure.Class, r.Failure.Code, r.Failure.Message
		data["recommended_next_action"] = r.NextAction
	}
	return Message{Type: prefix(r.Kind) + "." + word, Subject: "run/" + r.ID, Data: data}
}

// move computes the next row of a run. It knows the list and the table of classes, and changes
// nothing but its own Change.
type move struct {
	Change
	line    *line
	classes Classes
	now     time.Time
	was     Status
}

func newMove(l *line, classes Classes, now time.Time, r Record) *move {
	r.Progress.Tries = maps.Clone(r.Progress.Tries)
	if r.Progress.Tries == nil {
		r.Progress.Tries = map[string]int{}
	}
	if slices.Contains(l.lists, r.List) { // otherwise the run is only stopped, under its own list
		r.List = l.list
	}
	return &move{Change: Change{Record: r}, line: l, classes: classes, now: now, was: r.Status}
}

// change is the result, with the message for a new status.
func (m *move) change() Change {
	if word, ok := words[m.Record.Status]; ok && m.Record.Status != m.was {
		m.Messages = append(m.Messages, m.Record.message(word))
	}
	return m.Change
}

func (m *move) record(status EventStatus, message string, details json.RawMessage) {
	m.Events = append(m.Events, m.Record.event(status, message, details))
}

// enter puts the cursor on a stage.
func (m *move) enter(s *stage, d Direction) {
	r := &m.Record
	r.Stage, r.Direction, r.EnteredAt, r.Progress.Spent, r.Progress.Touched = s.name, d, time.Time{}, 0, false
	if far, ok := m.line.reached(r); d == Forward && s.rescues == nil && (!ok || s.at > far.at) {
		r.Progress.Reached = s.name
	}
	m.attempt(m.now)
}

// attempt makes the next call the first of a new attempt.
func (m *move) attempt(due time.Time) {
	r := &m.Record
	r.attempt()
	r.DueAt, r.Waiting, r.Held = due, "", false
}

// succeeded moves on from a stage whose goal holds.
func (m *move) succeeded(s *stage, status EventStatus, message string, details json.RawMessage) {
	m.record(status, message, details)
	m.Record.Progress.Waived = slices.DeleteFunc(slices.Clone(m.Record.Progress.Waived), func(w Waiver) bool { return w.Stage == s.name })
	if s.rescues == nil || s.then != "" {
		m.Record.Failure, m.Record.NextAction = nil, ""
	}
	m.advance(s)
}

func (m *move) advance(s *stage) {
	switch {
	case s.then != "":
		m.enter(m.line.named[s.then], Forward)
	case s.rescues != nil:
		m.enter(s.rescues.rescue[s.nth+1], Forward)
	case s.at+1 < len(m.line.main):
		m.enter(m.line.main[s.at+1], Forward)
	case m.Record.Progress.Adopted:
		m.end(Reconciled)
	default:
		m.end(Completed)
	}
}

func (m *move) end(status Status) {
	r := &m.Record
	r.Status, r.Waiting, r.Held, r.EnteredAt = status, "", false, time.Time{}
	if r.Batch != "" && status != Cancelled {
		m.Result = &Result{}
	}
}

// failed spends an attempt. late says that the stage's time is over.
func (m *move) failed(s *stage, f Failure, retry Retry, late bool) {
	r := &m.Record
	m.record(Failed, f.Message, detail(map[string]any{"failure_class": f.Class, "error_code": f.Code, "details": f.Details}))
	r.Failure = &f
	if r.Progress.Accepts == accepted(r.Stage, f.Code) {
		r.Progress.Accepts = "" // the failure has recurred since it was accepted
	}
	r.Progress.Spent++
	h := m.classes.of(f.Class)
	forward := r.Direction == Forward
	switch {
	case h.Retry && !late && (retry.Attempts == Unlimited || r.Progress.Spent < retry.Attempts):
		m.attempt(m.now.Add(retry.Backoff(r.Progress.Spent)))
	case forward && s.opt:
		r.Failure = nil // the failure stays in the history
		m.advance(s)
	case forward && h.Rescue && len(s.rescue) > 0:
		m.enter(s.rescue[0], Forward)
	default:
		if s.rescues != nil {
			h.Ends = FailedManual // the rescued failure is still there
		}
		m.stop(h)
	}
}

// stop leaves the run to an operator.
func (m *move) stop(h Handling) {
	r := &m.Record
	r.Status, r.NextAction, r.Waiting, r.Held = h.Ends, orDefault(r.Failure.next, h.NextAction), "", false
	if r.Direction == Undo && h.UndoAction != "" {
		r.NextAction = h.UndoAction
	}
	if r.Batch != "" && r.Direction == Forward {
		m.Result = &Result{Failed: true, Stage: r.Stage, Class: r.Failure.Class}
	}
}

// Restored stops a run whose cursor comes from a backup: the work of its stages since the backup,
// and a possible end, are unknown. Stores call Restored.
func (r Record) Restored(now time.Time) Change {
	c := Change{Record: r.Forsaken(now)}
	b := &c.Record
	f := Failure{
		Class: StateAmbiguity, Code: CodeRestored,
		Message: "the database was restored from a backup, which lacks what this run did since",
	}
	if b.Progress.Begun && !b.Status.Stopped() { // a stopped run's attempt has ended
		c.Events = append(c.Events, b.event(Failed, f.Message, nil))
	}
	b.Failure, b.Status, b.Asked, b.AskedBy, b.AskedCause, b.Waiting, b.Held = &f, FailedManual, AskNothing, "", "", "", false
	b.NextAction = "compare the node and its machine in MAAS with this run; then resume the run if it can continue from the present state, or cancel the run"
	c.Messages = append(c.Messages, b.message(words[FailedManual]))
	return c
}

// unknown stops a run that this version cannot continue.
func (m *move) unknown(code, format string, args ...any) {
	f := Failure{Class: StateAmbiguity, Code: code, Message: bounded(fmt.Sprintf(format, args...), maxMessage)}
	m.record(Failed, f.Message, nil)
	m.Record.Failure = &f
	m.stop(Handling{Ends: FailedManual, NextAction: m.classes.of(StateAmbiguity).NextAction})
}

// marked stops a run on an operator's order.
func (m *move) marked(why string) {
	f := Failure{Class: StateAmbiguity}
	if m.Record.Failure != nil {
		f = *m.Record.Failure
	}
	f.Code, f.Message, f.next = CodeMarked, bounded(why, maxMessage), ""
	m.Record.Failure = &f
	h := m.classes.of(f.Class)
	h.Ends = FailedManual
	m.stop(h)
	m.Result = nil // not a failure for the batch's count
}

// turn begins the undo at the furthest stage reached.
func (m *move) turn() error {
	r := &m.Record
	from, ok := m.line.named[r.Stage]
	far, known := m.line.reached(r)
	if !ok || !known {
		return refused("stage_unknown", "cannot undo run %s: this broker knows no stage %s or %s (upgrade the broker)", r.ID, r.Stage,
			r.Progress.Reached)
	}
	if far.at > from.at {
		from = far
	}
	r.Status, r.NextAction = Compensating, ""
	if from.takeBack != nil {
		m.enter(from, Undo)
	} else {
		m.stepBack(from)
	}
	return nil
}

// beforePivot reports whether undo stands at a stage before the pivot, where only a restart
// leads, and has not begun to take anything back there.
func (m *move) beforePivot() bool {
	far, known := m.line.reached(&m.Record)
	s, ok := m.line.named[m.Record.Stage]
	if !known || !ok || s.rescues != nil || m.Record.Progress.Touched {
		return false
	}
	for _, p := range m.line.main[s.at:far.at] {
		if p != s && p.takeBack != nil {
			return false
		}
		if p.pivot {
			return true
		}
	}
	return false
}

// compensated moves back from a stage that is taken back.
func (m *move) compensated(s *stage, message string, details json.RawMessage) {
	m.record(Compensated, message, details)
	m.stepBack(s)
}

// stepBack goes to the next stage with an Undo, up to a pivot that has been passed.
func (m *move) stepBack(s *stage) {
	r := &m.Record
	for p := m.line.before(s); p != nil; p = m.line.before(p) {
		if p.pivot && p.at < s.at && !r.Progress.Restart {
			break
		}
		if p.takeBack != nil {
			m.enter(p, Undo)
			return
		}
	}
	if !r.Progress.Restart {
		m.end(Cancelled)
		return
	}
	r.Status, r.Failure, r.NextAction = Running, nil, ""
	r.Progress.Restart, r.Progress.Reached = false, ""
	m.enter(m.line.main[0], Forward)
}
