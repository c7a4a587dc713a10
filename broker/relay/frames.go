package relay

import (
	"bytes"
	"time"

	"golang.org/x/time/rate"

	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Codes of the end of a connection.
const (
	codeExited                      = "terminal_exited"
	codeGone                        = "terminal_gone"
	codeElsewhere                   = "terminal_session_elsewhere" // also a code of the store
	codeLost       taskcatalog.Code = "connection_lost"
	codeReplaced   taskcatalog.Code = "connection_replaced"
	codeOutputLost taskcatalog.Code = "output_lost"
	codeUnexpected taskcatalog.Code = "frame_unexpected"
	codeFlood      taskcatalog.Code = "frame_flood"
	codeResizes    taskcatalog.Code = "resize_storm"
	codeUnread     taskcatalog.Code = "last_words_unread"
)

func unexpected(f frame.Frame) error {
	return taskcatalog.Errorf(codeUnexpected, "an unexpected frame of kind %d arrived", f.Kind())
}

// fromNode handles a frame from the node. An error ends the session.
func (s *session) fromNode(f frame.Frame) error {
	s.node.heard = time.Now()
	if s.exit != nil && f.Kind() != frame.KindBye {
		return unexpected(f) // a node has nothing more to say after Exit
	}
	switch f := f.(type) {
	case frame.Data:
		return s.wroteOutput(f)
	case frame.Ack:
		before := s.toNode.From()
		if err := s.toNode.Acked(f); err != nil {
			return err
		}
		return s.idle(s.nodeIdle, s.toNode.From() > before)
	}
	if !s.nodeControl.AllowN(s.relay.c.Now(), 1) {
		return taskcatalog.Errorf(codeFlood, "the node sends too many frames")
	}
	switch f := f.(type) {
	case frame.EOF:
		_, err := s.in.End(f)
		s.nodeEOF = err == nil
		s.settle()
		return err
	case frame.Exit:
		s.exit, s.exitAt = &f, s.relay.c.Now()
		s.progress = s.exitAt
		s.settle()
	case frame.Ping:
		pong := frame.Pong(f)
		s.node.pong = &pong
	case frame.Pong:
	case frame.Bye:
		if f.Lasts {
			s.dropNode(broken)
			return nil
		}
		s.finish("terminal_node_ended", "the node ended the session: "+taskcatalog.Clean(string(f.Code)+": "+f.Text, maxText))
		s.end.by = "node:" + s.peer.NodeID
		if s.end.status == nil {
			s.end.status = f.Status
		}
	default:
		return unexpected(f)
	}
	return nil
}

// earlyFromNode handles bytes of a datagram. Bytes that are out of order come again over the
// stream.
func (s *session) earlyFromNode(f frame.Data) error {
	s.node.heard = time.Now()
	if s.exit != nil {
		return nil // the datagram was slower than the Exit
	}
	if err := s.wroteOutput(f); taskcatalog.CodeOf(err, "") != frame.CodeGap {
		return err
	}
	return s.idle(s.nodeIdle, false)
}

func (s *session) wroteOutput(f frame.Data) error {
	fresh, err := s.in.Take(f)
	if err != nil {
		return err
	}
	if len(fresh) > 0 {
		s.out.add(fresh)
		s.tape.add(note{at: s.relay.c.Now(), kind: recording.Output, bytes: fresh})
	}
	return s.idle(s.nodeIdle, len(fresh) > 0)
}

// idle counts frames without news. A few such frames are normal wherever a connection breaks or
// bytes are repeated early; many are a flood.
func (s *session) idle(of *rate.Limiter, brings bool) error {
	if brings || of.AllowN(s.relay.c.Now(), 1) {
		return nil
	}
	return taskcatalog.Errorf(codeFlood, "too many empty frames are sent")
}

// fromOperator handles a frame from the operator. An error ends the operator's connection.
func (s *session) fromOperator(f frame.Frame) error {
	s.operator.heard = time.Now()
	switch f := f.(type) {
	case frame.Data:
		return s.typed(f)
	case frame.Ack:
		if f.Taken > s.sent {
			return taskcatalog.Errorf(frame.CodeAckUnsent, "%d bytes are acknowledged, and %d were sent", f.Taken, s.sent)
		}
		brings := f.Taken > s.taken
		s.taken, s.limit = max(s.taken, f.Taken), max(s.limit, f.Limit)
		if brings {
			s.progress = s.relay.c.Now()
			s.window.took(s.progress, s.taken)
		}
		return s.idle(s.opIdle, brings)
	case frame.Resize:
		if !s.resizes.AllowN(s.relay.c.Now(), 1) {
			return taskcatalog.Errorf(codeResizes, "the terminal's size changes too often")
		}
		if f != s.size {
			s.size, s.sizeTold = f, false
			s.tape.add(note{at: s.relay.c.Now(), kind: recording.Resize, size: f})
		}
		return nil
	}
	if !s.opControl.AllowN(s.relay.c.Now(), 1) {
		return taskcatalog.Errorf(codeFlood, "too many frames are sent")
	}
	switch f := f.(type) {
	case frame.EOF:
		if s.opIn == nil {
			return unexpected(f)
		}
		_, err := s.opIn.End(f)
		s.inputEOF = s.inputEOF || err == nil && s.opIn.Ended()
		return err
	case frame.Signal:
		if len(s.signals) < maxSignals {
			s.signals = append(s.signals, f)
		}
	case frame.Ping:
		pong := frame.Pong(f)
		s.operator.pong = &pong
	case frame.Pong:
	case frame.Bye:
		if !f.Lasts {
			s.finish("terminal_operator_ended", "its operator ended the session")
			s.end.by = s.by
			return nil
		}
		s.dropOperator(broken)
	default:
		return unexpected(f)
	}
	return nil
}

// typed handles input. The operator's limit is derived from the node's limit, so there is room for
// the input.
func (s *session) typed(f frame.Data) error {
	if s.opIn == nil {
		return taskcatalog.Errorf(frame.CodeBeyondLimit, "bytes were sent before any were allowed")
	}
	fresh, err := s.opIn.Take(f)
	if err != nil {
		return err
	}
	if len(fresh) == 0 {
		return s.idle(s.opIdle, false)
	}
	s.lastInput = s.relay.c.Now()
	if s.inputEOF { // the program's input has ended: later operators may watch, and their input is dropped
		return nil
	}
	s.inputEOF = s.opIn.Ended()
	if !s.row.RecordInput {
		s.toNode.Add(fresh)
		return nil
	}
	s.held = append(s.held, fresh...)
	s.tape.input += len(fresh)
	s.tape.add(note{at: s.lastInput, kind: recording.Input, bytes: fresh})
	return nil
}

// forward sends recorded input to the node once the recording has kept the input, so the program
// never gets input that the recording lacks.
func (s *session) forward(kept int) {
	for rest := s.held[:kept]; len(rest) > 0 && s.toNode.Room() > 0; { // of one frame at a time
		rest = rest[len(s.toNode.Add(rest).Bytes):]
	}
	s.held = s.held[kept:]
}

// nextForNode returns the next frame for the node; nil: nothing now.
func (s *session) nextForNode() frame.Frame {
	if f := s.node.begin(); f != nil {
		return f
	}
	if a := s.allow(); a != s.nodeAck && s.ackDue(a) {
		s.nodeAck, s.late = a, false
		return a
	}
	if !s.sizeTold && s.size.Columns > 0 {
		s.sizeTold = true
		return s.size
	}
	if len(s.signals) > 0 {
		f := s.signals[0]
		s.signals = s.signals[1:]
		return f
	}
	if f, err := s.toNode.Part(max(s.nodeSent, s.toNode.From())); err == nil && len(f.Bytes) > 0 {
		f.Bytes = bytes.Clone(f.Bytes)
		s.nodeSent = f.Offset + uint64(len(f.Bytes))
		return f
	}
	if s.inputEOF && len(s.held) == 0 && !s.eofSent {
		s.eofSent = true
		return frame.EOF{Offset: s.toNode.Sent()}
	}
	return nil
}

// allowInput returns the Ack for the operator: the node's position and the node's limit. The limit
// is at most one input window beyond the node's position, and beyond the kept input. Input
// after the end of input counts as taken as soon as the node has all input before the end.
func (s *session) allowInput() frame.Ack {
	if s.inputEOF {
		taken := s.toNode.From()
		if len(s.held) == 0 && taken == s.toNode.Sent() {
			taken = s.opIn.Taken()
		}
		return s.opIn.Pass(taken, s.opIn.Taken()+inputWindow)
	}
	kept := s.opIn.Taken() - uint64(s.tape.input)
	return s.opIn.Pass(s.toNode.From(), min(s.toNode.Limit(), s.toNode.From()+inputWindow, kept+inputWindow))
}

// nextForOperator returns the next frame for the operator; nil: nothing now.
func (s *session) nextForOperator() frame.Frame {
	if f := s.operator.begin(); f != nil {
		return f
	}
	if s.in == nil {
		return nil
	}
	if state := s.state(); state != s.operator.state && s.exit == nil {
		s.operator.state = state
		return state
	}
	if a := s.allowInput(); a != s.opAck {
		s.opAck = a
		return a
	}
	if b := s.out.shown(s.sent, s.limit); b != nil {
		f := frame.Data{Offset: s.sent, Bytes: b}
		s.sent += uint64(len(b))
		return f
	}
	switch {
	case s.sent < s.out.kept || s.tape.busy() || s.tape.partial:
	case s.nodeEOF && s.in.Ended() && !s.eofShown:
		s.eofShown = true
		return frame.EOF{Offset: s.in.Taken()}
	case s.exit != nil && !s.exitShown:
		s.exitShown = true
		return *s.exit
	}
	return nil
}
