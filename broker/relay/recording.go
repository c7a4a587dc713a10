package relay

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// tape is what a session writes to the store: the recording and the session's status. One goroutine
// at a time writes; events that arrive meanwhile are written together.
type tape struct {
	rec     *recording.Recorder
	notes   []note
	written chan written
	running bool
	cancel  context.CancelFunc
	unkept  bool // the last try failed
	waits   bool // for a tick, before the next try
	since   time.Time
	input   int         // bytes of input that must be kept and are not
	partial bool        // an incomplete character waits for its rest
	output  time.Time   // when output came last
	quiet   *time.Timer // runs settle after quietFor

	anchored time.Time // when the audit log was last told the recording's length
	ahead    bool      // the recording is longer by now
}

// anchorEvery is the interval at which the audit log is told the length of a growing recording. So
// at most the last two minutes of a recording can be cut off unnoticed.
const anchorEvery = 2 * time.Minute

// quietFor is the wait for the rest of a character.
const quietFor = 50 * time.Millisecond

// written is the result of a write.
type written struct {
	kept     uint64
	err      error
	input    int                     // bytes of input that are kept, if err is nil
	partial  bool                    // an incomplete character is not kept yet
	row      *broker.TerminalSession // the new status, if changed
	anchored time.Time               // when the audit log was told the recording's length; zero: it was not told
	statusNo error
}

// note is an event for the recording.
type note struct {
	at    time.Time
	kind  recording.EventKind // empty: an incomplete character is kept as it is
	bytes []byte              // of output or input
	size  frame.Resize
	gap   uint64 // lost bytes of output
}

// add notes an event; its bytes must not change afterwards. Bytes that arrive at the same time are
// joined into one event, and so are sizes without output between them: a recording needs no
// separate events, and no side may fill memory with them.
func (t *tape) add(n note) {
	if n.kind == recording.Output {
		t.output = n.at
	}
	if last := len(t.notes) - 1; last >= 0 {
		switch had := &t.notes[last]; {
		case had.kind != n.kind:
		case n.kind == recording.Resize:
			had.size = n.size
			return
		case n.bytes != nil && n.at.Sub(had.at) < sameTime && len(had.bytes)+len(n.bytes) <= frame.MaxData:
			had.bytes = append(had.bytes, n.bytes...)
			return
		}
	}
	n.bytes = n.bytes[:len(n.bytes):len(n.bytes)] // others hold these bytes too
	t.notes = append(t.notes, n)
}

// sameTime is the greatest distance of bytes that form one event.
const sameTime = 10 * time.Millisecond

func (n note) record(r *recording.Recorder) {
	switch n.kind {
	case recording.Output:
		r.Output(n.at, n.bytes)
	case recording.Input:
		r.Input(n.at, n.bytes)
	case recording.Resize:
		r.Resize(n.at, n.size.Columns, n.size.Rows)
	case recording.Marker:
		r.Gap(n.at, n.gap, "the node no longer has these bytes")
	default:
		r.Settle(n.at)
	}
}

// settle keeps an incomplete character as it is.
func (s *session) settle() {
	s.tape.add(note{at: s.relay.c.Now()})
}

// busy reports whether anything is not kept.
func (t *tape) busy() bool { return t.running || t.unkept || len(t.notes) > 0 }

// write starts to write the pending events.
func (s *session) write(ctx context.Context) {
	t, to := &s.tape, store.TerminalMove{To: s.status(), Replica: s.relay.c.Address}
	if s.exit != nil { // for another relay that may continue the session
		status := int(s.exit.Status)
		to.ExitStatus = &status
	}
	now := s.relay.c.Now()
	moves := to.ExitStatus != nil && s.row.ExitStatus == nil || to.To != s.row.Status && s.moves.TokensAt(now) >= 1
	if t.partial && !t.running && !now.Before(t.output.Add(quietFor)) {
		t.partial = false
		s.settle()
	}
	if t.anchored.IsZero() {
		t.anchored = now
	}
	t.ahead = t.ahead || len(t.notes) > 0
	anchor := t.ahead && !now.Before(t.anchored.Add(anchorEvery))
	if t.running || t.waits || !t.unkept && !moves && !anchor && len(t.notes) == 0 {
		return
	}
	notes, input, id, db := t.notes, t.input, s.row.ID, s.relay.c.DB
	t.notes, t.running = nil, true
	ctx, t.cancel = context.WithTimeout(ctx, keepWithin)
	cancel := t.cancel
	s.group.Go(func() {
		defer cancel()
		w, size := written{input: input}, 0
		for _, n := range notes {
			size += len(n.bytes)
		}
		t.rec.Expect(size)
		for _, n := range notes {
			n.record(t.rec)
		}
		w.partial = t.rec.Waits()
		w.kept, w.err = t.rec.Flush(ctx)
		switch {
		case w.err != nil:
		case moves:
			row, err := db.MoveTerminalSession(ctx, broker.System, id, to)
			if w.row, w.statusNo = &row, err; err != nil {
				w.row = nil
			}
		case anchor:
			w.statusNo = db.AnchorRecording(ctx, broker.System, to.Replica, t.rec.Head())
		}
		if (moves || anchor) && w.err == nil && w.statusNo == nil {
			w.anchored = now
		}
		t.written <- w
	})
}

// wrote handles the result of a write.
func (s *session) wrote(w written) {
	t := &s.tape
	t.running, t.unkept = false, w.err != nil
	if w.row != nil {
		s.row = *w.row
		s.moves.AllowN(s.relay.c.Now(), 1)
	}
	if !w.anchored.IsZero() {
		t.anchored, t.ahead = w.anchored, false
	}
	s.out.kept = max(s.out.kept, w.kept)
	if w.err == nil && w.input > 0 {
		t.input -= w.input
		s.forward(w.input)
	}
	if t.partial = w.partial; t.partial {
		t.quiet.Reset(quietFor)
	}
	refused := (*broker.Error)(nil)
	switch {
	case errors.As(errors.Join(w.err, w.statusNo), &refused) && (refused.Code == codeElsewhere || refused.Code == "recording_conflict"):
		s.moved()
	case errors.As(w.err, &refused):
		s.finish("recording_failed", "its recording cannot be stored: "+refused.Code)
	case errors.As(w.statusNo, &refused):
		s.finish("terminal_closed", "the session was closed by another broker: "+refused.Code)
	case w.err != nil:
		now := s.relay.c.Now()
		if t.since.IsZero() {
			t.since = now
		}
		if t.waits = true; !now.Before(t.since.Add(keepWithin)) {
			s.finish("recording_failed", "its recording cannot be stored")
		}
		s.relay.c.Log.Warn("cannot store a recording", zap.String("session", s.row.ID), zap.Error(w.err))
	case w.statusNo != nil:
		t.since, t.waits = time.Time{}, true
		s.relay.c.Log.Warn("cannot record the state of a terminal session", zap.String("session", s.row.ID), zap.Error(w.statusNo))
	default:
		t.since = time.Time{}
	}
}

// moved releases a session that another relay has taken.
func (s *session) moved() {
	if s.end == nil {
		s.end = &ending{code: "terminal_moved", reason: "another relay continues the session", lasts: true}
	}
}

// stop ends a running write, and gives the unwritten events to the recorder.
func (t *tape) stop() {
	if t.running {
		t.cancel()
		<-t.written
	}
	for _, n := range t.notes {
		n.record(t.rec)
	}
	t.notes, t.running = nil, false
}

// leaveRecord tells the audit log the length of a recording that continues at another relay, unless
// the audit log already knows. A part that was cut off before or is cut off meanwhile is then
// noticed.
func (s *session) leaveRecord(ctx context.Context) {
	t := &s.tape
	if !t.ahead {
		return
	}
	if err := s.relay.c.DB.AnchorRecording(ctx, broker.System, "", t.rec.Head()); err != nil {
		s.relay.c.Log.Warn("cannot record the length of a recording that continues at another relay in the audit log",
			zap.String("session", s.row.ID), zap.Error(err))
	}
}

// closeRecord ends the recording and then the session. If the recording cannot be ended, the
// session stays closing until Reap.
func (s *session) closeRecord(ctx context.Context, end store.TerminalMove) error {
	db := s.relay.c.DB
	why := s.end.code
	if s.end.cut {
		why += "; the last bytes that its node sent may be missing"
	}
	head, err := s.tape.rec.End(ctx, why)
	if err == nil {
		err = db.CloseRecording(ctx, broker.System, s.relay.c.Address, head)
	}
	if err == nil {
		end.To = broker.TerminalClosed
		_, err = db.MoveTerminalSession(ctx, broker.System, s.row.ID, end)
	}
	return err
}
