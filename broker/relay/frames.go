package relay

import (
	"bytes"

	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Codes of what ends a connection.
const (
	codeExited                      = "terminal_exited"
	codeElsewhere                   = "terminal_session_elsewhere" // of the store, too
	codeLost       taskcatalog.Code = "connection_lost"
	codeReplaced   taskcatalog.Code = "connection_replaced"
	codeOutputLost taskcatalog.Code = "output_lost"
	codeUnexpected taskcatalog.Code = "frame_unexpected"
	codeFlood      taskcatalog.Code = "frame_flood"
	codeResizes    taskcatalog.Code = "resize_storm"
)

func unexpected(f frame.Frame) error {
	return taskcatalog.Errorf(codeUnexpected, "a frame of kind %d came, which has no place there", f.Kind())
}

// fromNode takes a frame of the node's. An error ends the session.
func (s *session) fromNode(f frame.Frame) error {
	if s.exit != nil && f.Kind() != frame.KindBye {
		return unexpected(f) // whoever has ended has nothing more to say
	}
	switch f := f.(type) {
	case frame.Data:
		fresh, err := s.in.Take(f)
		if err != nil || len(fresh) == 0 {
			return err
		}
		s.out.add(fresh)
		s.tape.add(note{kind: recording.Output, bytes: fresh})
		return nil
	case frame.Ack:
		return s.toNode.Acked(f)
	}
	if !s.nodeControl.AllowN(s.relay.c.Now(), 1) {
		return taskcatalog.Errorf(codeFlood, "the node sends frames without end")
	}
	switch f := f.(type) {
	case frame.EOF:
		_, err := s.in.End(f)
		s.nodeEOF = err == nil
		return err
	case frame.Exit:
		s.exit, s.exitAt = &f, s.relay.c.Now()
	case frame.Ping:
		s.pongs[s.node] = frame.Pong(f)
	case frame.Pong:
	case frame.Bye:
		if f.Lasts {
			s.dropNode(broken)
			return nil
		}
		s.finish("terminal_node_ended", "the node ended it: "+taskcatalog.Clean(string(f.Code)+": "+f.Text, maxText))
		if s.end.status == nil {
			s.end.status = f.Status
		}
	default:
		return unexpected(f)
	}
	return nil
}

// fromOperator takes a frame of the operator's. An error ends his connection.
func (s *session) fromOperator(f frame.Frame) error {
	switch f := f.(type) {
	case frame.Data:
		return s.typed(f)
	case frame.Ack:
		if f.Taken > s.sent {
			return taskcatalog.Errorf(frame.CodeAckUnsent, "%d bytes are acknowledged, and %d were sent", f.Taken, s.sent)
		}
		s.taken, s.limit = max(s.taken, f.Taken), max(s.limit, f.Limit)
		return nil
	case frame.Resize:
		if !s.resizes.AllowN(s.relay.c.Now(), 1) {
			return taskcatalog.Errorf(codeResizes, "the terminal's size changes too often")
		}
		s.size = &f
		s.tape.add(note{kind: recording.Resize, size: f})
		return nil
	}
	if !s.opControl.AllowN(s.relay.c.Now(), 1) {
		return taskcatalog.Errorf(codeFlood, "frames are sent without end")
	}
	switch f := f.(type) {
	case frame.EOF:
		if s.opIn == nil {
			return unexpected(f)
		}
		_, err := s.opIn.End(f)
		s.inputEOF = err == nil && s.opIn.Ended()
		return err
	case frame.Signal:
		if len(s.signals) < maxSignals {
			s.signals = append(s.signals, f)
		}
	case frame.Ping:
		s.pongs[s.operator] = frame.Pong(f)
	case frame.Pong:
	case frame.Bye:
		if !f.Lasts {
			s.finish("terminal_operator_ended", "its operator ended it")
			return nil
		}
		s.dropOperator(broken)
	default:
		return unexpected(f)
	}
	return nil
}

// typed takes input. What is allowed is what the node allows, so there is room for it.
func (s *session) typed(f frame.Data) error {
	if s.opIn == nil {
		return taskcatalog.Errorf(frame.CodeBeyondLimit, "bytes were sent before any were allowed")
	}
	fresh, err := s.opIn.Take(f)
	if err != nil || len(fresh) == 0 {
		return err
	}
	s.lastInput = s.relay.c.Now()
	s.toNode.Add(fresh)
	s.inputEOF = s.opIn.Ended()
	if s.row.RecordInput {
		s.tape.add(note{kind: recording.Input, bytes: fresh})
	}
	return nil
}

// begin is what a link is sent before all else.
func (s *session) begin(l *link) frame.Frame {
	f, ok := s.first[l]
	if ok {
		delete(s.first, l)
		return f
	}
	if pong, ok := s.pongs[l]; ok {
		delete(s.pongs, l)
		return pong
	}
	return nil
}

// nextForNode is what the node is sent next; nil: nothing now.
func (s *session) nextForNode() frame.Frame {
	if f := s.begin(s.node); f != nil {
		return f
	}
	if a := s.allow(); a != s.told {
		s.told = a
		return a
	}
	if s.size != nil {
		f := *s.size
		s.size = nil
		return f
	}
	if len(s.signals) > 0 {
		f := s.signals[0]
		s.signals = s.signals[1:]
		return f
	}
	if again, err := s.toNode.Again(max(s.nodeSent, s.toNode.From())); err == nil && len(again) > 0 {
		f := again[0]
		f.Bytes = bytes.Clone(f.Bytes)
		s.nodeSent = f.Offset + uint64(len(f.Bytes))
		return f
	}
	if s.inputEOF && !s.eofSent {
		s.eofSent = true
		return frame.EOF{Offset: s.toNode.Sent()}
	}
	return nil
}

// allowInput is the Ack that the operator should have: what the node has taken, and what
// it allows, within bounds.
func (s *session) allowInput() frame.Ack {
	return s.opIn.Pass(s.toNode.From(), min(s.toNode.Limit(), s.toNode.From()+inputWindow))
}

// nextForOperator is what the operator is sent next; nil: nothing now.
func (s *session) nextForOperator() frame.Frame {
	if f := s.begin(s.operator); f != nil {
		return f
	}
	if s.in == nil {
		return nil
	}
	if a := s.allowInput(); a != s.toldOp {
		s.toldOp = a
		return a
	}
	if b := s.out.shown(s.sent, s.limit, frame.MaxData); b != nil {
		f := frame.Data{Offset: s.sent, Bytes: b}
		s.sent += uint64(len(b))
		return f
	}
	switch {
	case s.sent < s.out.kept || s.tape.busy():
	case s.nodeEOF && s.in.Ended() && !s.eofShown:
		s.eofShown = true
		return frame.EOF{Offset: s.in.Taken()}
	case s.exit != nil && !s.exitShown:
		s.exitShown = true
		return *s.exit
	}
	return nil
}
