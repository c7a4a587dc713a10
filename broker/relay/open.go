package relay

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// Open takes a session, either a new one or another relay's. In the second case Open continues the
// recording. The header has the present size of the operator's terminal. Codes:
// terminal_session_not_found, terminal_session_over, terminal_session_here, relay_stopping, and
// those of the recording.
func (r *Relay) Open(ctx context.Context, id string, h recording.Header) error {
	leave, err := r.enter(id)
	if err != nil {
		return err
	}
	defer leave()
	if _, err := r.open(ctx, id); err != nil { // before the session is taken from a relay that is closing it
		return err
	}
	if err := r.c.DB.SetTerminalReplica(ctx, broker.System, id, r.c.Address); err != nil {
		return err
	}
	row, err := r.open(ctx, id) // as the previous relay left it; that relay can change nothing any more
	if err != nil {
		return err
	}
	rec, from, err := r.recorder(ctx, id, h)
	if err != nil {
		return err
	}
	s := newSession(r, row, rec, from)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return stopping(id)
	}
	r.sessions[id] = s
	r.running.Go(func() {
		s.run(r.ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.sessions, id)
	})
	return nil
}

// open reads a session and refuses one that is over.
func (r *Relay) open(ctx context.Context, id string) (broker.TerminalSession, error) {
	row, err := r.c.DB.TerminalSession(ctx, id)
	if err == nil && row.Status.Over() {
		err = broker.Errorf(broker.Refused, "terminal_session_over", "cannot open terminal session %s: the session is %s", id, row.Status)
	}
	return row, err
}

// enter allows one caller at a time to open or end a session, until leave is called.
func (r *Relay) enter(id string) (leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stopped:
		return nil, stopping(id)
	case r.sessions[id] != nil || r.opening[id]:
		return nil, broker.Errorf(broker.Refused, "terminal_session_here",
			"cannot open terminal session %s: the session is open at this relay already", id)
	}
	r.opening[id] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.opening, id)
	}, nil
}

func stopping(id string) *broker.Error {
	return broker.Errorf(broker.Unavailable, "relay_stopping", "cannot open terminal session %s: the relay stops (try again)", id)
}

// initialState is the initial state of a session at this relay.
type initialState struct {
	at            uint64 // position up to which output is recorded
	resumed       bool   // taken over from another relay
	columns, rows uint16
}

// recorder begins or continues a recording.
func (r *Relay) recorder(ctx context.Context, id string, h recording.Header) (*recording.Recorder, initialState, error) {
	from := initialState{columns: characters(h.Width), rows: characters(h.Height)}
	last, err := r.c.DB.LastBlock(ctx, id)
	if err != nil {
		return nil, from, err
	}
	cut, err := r.c.DB.RecordingCut(ctx, id)
	if err != nil {
		return nil, from, err
	}
	from.resumed = last.Seq >= 0 || cut != nil
	begin := func() (*recording.Recorder, error) { return r.resume(ctx, last) }
	if last.Seq < 0 {
		begin = func() (*recording.Recorder, error) { return recording.Begin(ctx, r.c.Keeper, id, h, r.c.Now) }
	}
	rec, err := begin()
	if err == nil {
		from.at, err = r.noteCut(ctx, rec, cut)
	}
	return rec, from, err
}

// noteCut records the missing part in the recording and then in the audit log; a nil cut means
// nothing is missing. noteCut returns the output position at which the recording ends.
func (r *Relay) noteCut(ctx context.Context, rec *recording.Recorder, cut *recording.Cut) (uint64, error) {
	if cut == nil {
		return rec.Head().Bytes, nil
	}
	rec.Cut(cut.Told)
	at, err := rec.Flush(ctx)
	if err == nil {
		err = r.c.DB.NoteRecordingCut(ctx, broker.System, *cut)
	}
	return at, err
}

// characters checks a dimension of a terminal, in characters; 0: unknown.
func characters(n int) uint16 {
	if n < 1 || n > maxSide {
		return 0
	}
	return uint16(n)
}

func (r *Relay) resume(ctx context.Context, last recording.Block) (*recording.Recorder, error) {
	for first, err := range r.c.DB.Blocks(ctx, last.SessionID) {
		if err != nil {
			return nil, err
		}
		return recording.Resume(ctx, r.c.Keeper, last, first.At, r.c.Now)
	}
	return nil, broker.Errorf(broker.Refused, "recording_broken", "cannot continue the recording of session %s: its beginning is missing",
		last.SessionID)
}

// Reap ends a session that no relay holds any more, as after the death of its relay, and ends its
// recording with a note of the missing part. Callers may repeat Reap until it succeeds. A broken
// recording stays without an end, which is audited (recording.broken). Codes:
// terminal_session_not_found, terminal_session_here, relay_stopping, and those of the recording.
func (r *Relay) Reap(ctx context.Context, id, code, reason string) error {
	leave, err := r.enter(id)
	if err != nil {
		return err
	}
	defer leave()
	db := r.c.DB
	row, err := db.TerminalSession(ctx, id)
	if err != nil || row.Status == broker.TerminalClosed {
		return err
	}
	if err := db.SetTerminalReplica(ctx, broker.System, id, r.c.Address); err != nil {
		return err
	}
	end := store.TerminalMove{To: broker.TerminalClosing, Code: code, Reason: taskcatalog.Clean(reason, maxText), Replica: r.c.Address}
	if _, err := db.MoveTerminalSession(ctx, broker.System, id, end); err != nil {
		return err
	}
	if err := r.endRecord(ctx, id, code); err != nil {
		if broker.AsError(err).Code != "recording_broken" {
			return err
		}
		// No retry will succeed: the session ends anyway, and its recording has no end.
		if err := db.NoteRecordingBroken(ctx, broker.System, id, taskcatalog.Clean(err.Error(), maxText)); err != nil {
			return err
		}
	}
	end.To = broker.TerminalClosed
	_, err = db.MoveTerminalSession(ctx, broker.System, id, end)
	return err
}

// endRecord ends a recording that another relay began.
func (r *Relay) endRecord(ctx context.Context, id, code string) error {
	last, err := r.c.DB.LastBlock(ctx, id)
	if err != nil {
		return err
	}
	cut, err := r.c.DB.RecordingCut(ctx, id)
	if cut != nil && (last.Last || last.Seq < 0) { // the recording itself cannot record the cut
		err = r.c.DB.NoteRecordingCut(ctx, broker.System, *cut)
	}
	if err != nil || last.Seq < 0 {
		return err
	}
	head := recording.HeadOf(last)
	if !last.Last {
		rec, err := r.resume(ctx, last)
		if err != nil {
			return err
		}
		if _, err := r.noteCut(ctx, rec, cut); err != nil {
			return err
		}
		if head, err = rec.End(ctx, code); err != nil {
			return err
		}
	}
	return r.c.DB.CloseRecording(ctx, broker.System, r.c.Address, head)
}
