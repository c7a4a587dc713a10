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

// ending is the reason for the end of a session.
type ending struct {
	code   string
	reason string
	by     string // the user who ended it; empty: the relay
	status *int32
	lasts  bool // the session continues elsewhere: this relay releases it
	attack bool // an attack by the node, for the audit log
	cut    bool // the process is gone, and its last output may still be in transit
}

// finish ends the session at the next turn of the loop; the first reason counts.
func (s *session) finish(code, reason string) {
	if s.end == nil {
		s.end = &ending{code: code, reason: reason}
		if s.exit != nil {
			s.end.status = &s.exit.Status
		}
	}
}

// afterExit releases the node of an exited program once all output is kept, and ends the session
// once the operator has seen the output. A detached operator may come back for the rest. An
// operator who stops reading is disconnected; the session stays.
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
	case !now.Before(s.progress.Add(lastOutputTime)):
		s.dropOperator(frame.Bye{Code: codeUnread, Text: "the relay did not accept the program's last output", Lasts: true})
	}
}

// requestEnd ends the session. The end is immediate unless the process on the node is gone: the
// notice of a gone process may overtake its last output.
func (s *session) requestEnd(code, reason string) {
	switch {
	case code != codeGone:
		s.finish(code, reason)
	case s.goneBy.IsZero():
		s.goneBy, s.goneWhy = time.Now().Add(s.relay.c.GoneWithin), reason
	}
}

// afterGone ends the session of a gone process once all output in transit has arrived, or the wait
// for it has timed out.
func (s *session) afterGone() {
	if s.goneBy.IsZero() || s.end != nil {
		return
	}
	if came := s.node == nil && !s.tape.busy() && !s.tape.partial; came || !time.Now().Before(s.goneBy) {
		s.finish(codeGone, s.goneWhy)
		s.end.cut = s.node != nil
	}
}

// close marks the session as closing in the store, tells both sides, and then ends the recording
// and the session. If the store reports that another relay has the session, close only releases the
// session. If the store does not answer within askWithin, close goes on.
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
	bye := frame.Bye{
		Code: taskcatalog.Code(s.end.code), Text: taskcatalog.Clean(s.end.reason, maxText), Lasts: s.end.lasts,
		Status: s.end.status,
	}
	s.node.end(bye)
	s.operator.end(bye)
	if s.end.attack {
		s.relay.auditAttack(s.peer.NodeID, s.row.ID, s.end.code, s.end.reason)
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
