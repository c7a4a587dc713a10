package relay

import (
	"bytes"
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// tape is what a session writes to the store: what is for its recording, and where it
// stands. One goroutine at a time does it; what comes meanwhile is written together.
type tape struct {
	rec     *recording.Recorder
	notes   []note
	written chan written
	running bool
	cancel  context.CancelFunc
	unkept  bool // the last try failed
	waits   bool // for a tick, before the next one
	since   time.Time
}

// written is what came of it.
type written struct {
	kept     uint64
	err      error
	row      *broker.TerminalSession // where it stands now, if that has changed
	statusNo error
}

// note is an event for the recording.
type note struct {
	kind  recording.EventKind
	bytes []byte // of output or input
	size  frame.Resize
	gap   uint64 // bytes of output that are lost
}

// add notes an event. What comes byte by byte is one: a recording has no use for each, and
// nobody is to fill memory with them.
func (t *tape) add(n note) {
	if last := len(t.notes) - 1; last >= 0 && n.bytes != nil {
		if had := &t.notes[last]; had.kind == n.kind && len(had.bytes)+len(n.bytes) <= frame.MaxData {
			had.bytes = append(had.bytes, n.bytes...)
			return
		}
	}
	if n.bytes != nil {
		n.bytes = bytes.Clone(n.bytes)
	}
	t.notes = append(t.notes, n)
}

func (n note) record(r *recording.Recorder) {
	switch n.kind {
	case recording.Output:
		r.Output(n.bytes)
	case recording.Input:
		r.Input(n.bytes)
	case recording.Resize:
		r.Resize(n.size.Columns, n.size.Rows)
	case recording.Marker:
		r.Gap(n.gap, "the node has them no more")
	}
}

// busy reports whether there is something that is not kept.
func (t *tape) busy() bool { return t.running || t.unkept || len(t.notes) > 0 }

// write begins to write what there is.
func (s *session) write(ctx context.Context) {
	t, status := &s.tape, s.status()
	moves := status != s.row.Status
	if t.running || t.waits || !t.unkept && !moves && len(t.notes) == 0 {
		return
	}
	notes, id, db, address := t.notes, s.row.ID, s.relay.c.DB, s.relay.c.Address
	t.notes, t.running = nil, true
	ctx, t.cancel = context.WithTimeout(ctx, keepWithin)
	cancel := t.cancel
	s.group.Go(func() {
		defer cancel()
		var w written
		for _, n := range notes {
			n.record(t.rec)
		}
		w.kept, w.err = t.rec.Flush(ctx)
		if moves && w.err == nil {
			row, err := db.MoveTerminalSession(ctx, actor, id, store.TerminalMove{To: status, Replica: address})
			if w.row, w.statusNo = &row, err; err != nil {
				w.row = nil
			}
		}
		t.written <- w
	})
}

// wrote takes what came of writing.
func (s *session) wrote(w written) {
	t := &s.tape
	t.running, t.unkept = false, w.err != nil
	if w.row != nil {
		s.row = *w.row
	}
	s.out.kept = max(s.out.kept, w.kept)
	refused := (*broker.Error)(nil)
	switch {
	case errors.As(errors.Join(w.err, w.statusNo), &refused) && (refused.Code == codeElsewhere || refused.Code == "recording_conflict"):
		s.moved()
	case errors.As(w.err, &refused):
		s.finish("recording_failed", "its recording cannot be kept: "+refused.Code)
	case errors.As(w.statusNo, &refused):
		s.finish("terminal_closed", "it was closed elsewhere: "+refused.Code)
	case w.err != nil:
		now := s.relay.c.Now()
		if t.since.IsZero() {
			t.since = now
		}
		if t.waits = true; !now.Before(t.since.Add(keepWithin)) {
			s.finish("recording_failed", "its recording cannot be kept")
		}
		s.relay.c.Log.Warn("cannot keep a recording", zap.String("session", s.row.ID), zap.Error(w.err))
	case w.statusNo != nil:
		t.since, t.waits = time.Time{}, true
		s.relay.c.Log.Warn("cannot note where a terminal session stands", zap.String("session", s.row.ID), zap.Error(w.statusNo))
	default:
		t.since = time.Time{}
	}
}

// moved lets go of a session that another relay has taken.
func (s *session) moved() {
	if s.end == nil {
		s.end = &ending{code: "terminal_moved", reason: "another relay goes on with it", lasts: true}
	}
}

// settle ends what is being written, and gives the recorder what was not.
func (t *tape) settle() {
	if t.running {
		t.cancel()
		<-t.written
	}
	for _, n := range t.notes {
		n.record(t.rec)
	}
	t.notes, t.running = nil, false
}

// closeRecord ends the recording, and then the session.
func (s *session) closeRecord(ctx context.Context, end store.TerminalMove) error {
	db := s.relay.c.DB
	head, err := s.tape.rec.End(ctx, s.end.code)
	if err == nil {
		err = db.CloseRecording(ctx, actor, s.relay.c.Address, head)
	}
	end.To = broker.TerminalClosed
	_, closed := db.MoveTerminalSession(ctx, actor, s.row.ID, end)
	return errors.Join(err, closed)
}
