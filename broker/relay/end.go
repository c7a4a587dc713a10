package relay

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// ending is why a session is over.
type ending struct {
	code   string
	reason string
	by     string // who ended it; empty: the relay
	status *int32
	lasts  bool // it goes on elsewhere: this relay lets go of it
	attack bool // by the node: it is for the audit log
	cut    bool // its process is gone, and of what that wrote last some may be on its way yet
}

// finish ends the session when the loop comes round; the first reason is the one that counts.
func (s *session) finish(code, reason string) {
	if s.end == nil {
		s.end = &ending{code: code, reason: reason}
		if s.exit != nil {
			s.end.status = &s.exit.Status
		}
	}
}

// afterExit lets go of the node whose program has ended, once all that it wrote is kept, and
// ends the session once the operator has seen it. One who is away may come back for it, and
// so may one who takes nothing of it: he is let go of, and not his session.
func (s *session) afterExit() {
	if s.exit == nil || s.end != nil || s.tape.busy() || s.tape.partial {
		return
	}
	now := s.relay.c.Now()
	if s.node != nil {
		status := s.exit.Status
		s.dropNode(frame.Bye{Code: codeExited, Text: "its program ended", Status: &status})
	}
	since := s.operatorGone
	if s.exitAt.After(since) {
		since = s.exitAt
	}
	switch {
	case s.operator == nil && !now.Before(since.Add(cmp.Or(s.row.Limits.Detach, exitKept))):
		s.finish(codeExited, "its program ended")
	case s.operator == nil:
	case s.taken == s.out.kept && s.exitShown && s.operator.pending == nil:
		s.finish(codeExited, "its program ended")
	case !now.Before(s.progress.Add(lastWords)):
		s.dropOperator(frame.Bye{Code: codeUnread, Text: "what the program wrote last is not taken", Lasts: true})
	}
}

// askedToEnd ends the session, at once but for one whose process is gone on the node: word of
// that may overtake what it wrote last.
func (s *session) askedToEnd(code, reason string) {
	switch {
	case code != codeGone:
		s.finish(code, reason)
	case s.goneBy.IsZero():
		s.goneBy, s.goneWhy = time.Now().Add(s.relay.c.GoneWithin), reason
	}
}

// afterGone ends the session of such a process once all has come that was on its way, or
// nothing says that it has.
func (s *session) afterGone() {
	if s.goneBy.IsZero() || s.end != nil {
		return
	}
	if came := s.node == nil && !s.tape.busy() && !s.tape.partial; came || !time.Now().Before(s.goneBy) {
		s.finish(codeGone, s.goneWhy)
		s.end.cut = s.node != nil
	}
}

// close ends the recording and says so in the store, and tells both sides: once it is sure
// that the session is still this relay's to end, or that nobody can say.
func (s *session) close(ctx context.Context) {
	s.tape.stop()
	end := store.TerminalMove{To: broker.TerminalClosing, Code: s.end.code, Reason: s.end.reason, By: s.end.by, Replica: s.relay.c.Address}
	if s.end.status != nil {
		status := int(*s.end.status)
		end.ExitStatus = &status
	}
	var closing error
	if !s.end.lasts {
		asked, done := context.WithTimeout(ctx, askWithin)
		_, closing = s.relay.c.DB.MoveTerminalSession(asked, broker.System, s.row.ID, end)
		done()
		s.end.lasts = closing != nil && broker.AsError(closing).Code == codeElsewhere
	}
	bye := frame.Bye{Code: taskcatalog.Code(s.end.code), Text: taskcatalog.Clean(s.end.reason, maxText), Lasts: s.end.lasts, Status: s.end.status}
	s.node.end(bye)
	s.operator.end(bye)
	if s.end.attack {
		s.relay.attack(s.peer.NodeID, s.row.ID, s.end.code, s.end.reason)
	}
	ctx, done := context.WithTimeout(ctx, closeWithin)
	defer done()
	if s.end.lasts {
		s.leaveRecord(ctx)
	} else if err := errors.Join(closing, s.closeRecord(ctx, end)); err != nil {
		s.relay.c.Log.Error("cannot end the record of a terminal session", zap.String("session", s.row.ID), zap.Error(err))
	}
	s.group.Wait()
}
