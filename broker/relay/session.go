package relay

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// session is one session of this relay. run owns all fields, except the channels and the group.
type session struct {
	relay *Relay
	row   broker.TerminalSession
	calls chan func()
	over  chan struct{}
	ended chan struct{}  // closed before over: calls are no longer accepted
	group sync.WaitGroup // of its links and of its writes to the store

	node, operator *link
	by             string   // name of the operator
	peer           pki.Peer // at the other end of node
	transport      string   // of node
	denied         chan denial
	querying       bool      // the store is being asked about a denied certificate
	deniedSince    time.Time // since when the certificate of node is denied; zero: it is not denied
	resumed        bool      // another relay had it
	watched        bool      // an operator has been welcomed
	nodeGone       time.Time
	operatorGone   time.Time
	shown          atomic.Pointer[sidesState] // published state for other goroutines
	lastInput      time.Time

	// Output: from the node, to the recording, to the operator.
	in        *frame.Inflow // nil: the node has not come yet
	out       output
	nodeAck   frame.Ack // to the node
	late      bool      // nodeAck must be sent with the next tick
	sent      uint64    // to the operator
	taken     uint64    // by the operator
	limit     uint64    // given by the operator
	window    window    // given to the node on the operator's behalf
	nodeEOF   bool
	eofShown  bool
	exit      *frame.Exit // how the program ended
	exitAt    time.Time
	exitShown bool
	progress  time.Time // when the operator last took something, or came

	// Input: from the operator, to the node.
	opIn        *frame.Inflow
	toNode      *frame.Outflow
	held        []byte // input beyond toNode that must be kept first
	nodeSent    uint64
	opAck       frame.Ack
	inputEOF    bool
	eofSent     bool
	size        frame.Resize // last known size; zero: unknown
	sizeTold    bool         // to this connection of the node
	signals     []frame.Signal
	repeatTimer *time.Timer // for the next early repeat
	resizes     *rate.Limiter
	nodeControl *rate.Limiter
	opControl   *rate.Limiter
	moves       *rate.Limiter // limits status changes
	nodeIdle    *rate.Limiter // frames that bring nothing new
	opIdle      *rate.Limiter

	tape tape
	end  *ending

	goneBy  time.Time // deadline of the end after the process on the node is gone; zero: not gone
	goneWhy string
}

// sidesState is the published state of a session's sides.
type sidesState struct {
	state         frame.State
	by            string    // the connected operator; empty: nobody
	nodeGoneSince time.Time // since when the node is missing; zero: it is here, or not needed
}

// show publishes the standing to readers that do not wait for the session.
func (s *session) show() {
	now := sidesState{state: s.state()}
	if s.node == nil && s.exit == nil {
		now.nodeGoneSince = s.nodeGone
	}
	if s.operator != nil {
		now.by = s.by
	}
	if had := s.shown.Load(); had == nil || *had != now {
		s.shown.Store(&now)
	}
}

func newSession(r *Relay, row broker.TerminalSession, rec *recording.Recorder, from initialState) *session {
	now := r.c.Now()
	s := &session{
		relay: r, row: row, calls: make(chan func()), over: make(chan struct{}), ended: make(chan struct{}), denied: make(chan denial, 1),
		nodeGone: now, operatorGone: now, lastInput: now, resumed: from.resumed,
		out:         output{from: from.at, kept: from.at},
		window:      newWindow(now, from.at),
		repeatTimer: time.NewTimer(time.Hour),
		resizes:     rate.NewLimiter(resizeRate, resizeBurst),
		moves:       rate.NewLimiter(moveRate, moveBurst),
		nodeControl: rate.NewLimiter(controlRate, controlBurst), opControl: rate.NewLimiter(controlRate, controlBurst),
		nodeIdle: rate.NewLimiter(idleRate, idleBurst), opIdle: rate.NewLimiter(idleRate, idleBurst),
	}
	s.tape = tape{rec: rec, written: make(chan written, 1), quiet: time.NewTimer(time.Hour)}
	if size := (frame.Resize{Columns: from.columns, Rows: from.rows}); size.Columns > 0 && size.Rows > 0 {
		s.size = size
		if s.resumed {
			s.tape.add(note{at: now, kind: recording.Resize, size: size})
		}
	}
	if row.ExitStatus != nil { // the previous relay got the exit; the last output is lost to this relay
		s.exit, s.exitAt = &frame.Exit{Status: int32(*row.ExitStatus)}, now
		s.in, s.toNode = frame.NewInflow(from.at), frame.NewOutflow(0)
	}
	s.show()
	return s
}

// do runs f in the session's goroutine; false: the session is over or ending.
func (s *session) do(f func()) bool {
	done := make(chan struct{})
	select {
	case s.calls <- func() { defer close(done); f() }:
		<-done
		return true
	case <-s.ended:
		return false
	}
}

// run is the session's loop. run returns once the session is over and everything that it started
// has ended.
func (s *session) run(ctx context.Context) {
	defer close(s.over)
	tick := time.NewTicker(s.relay.c.Tick)
	defer tick.Stop()
	defer s.repeatTimer.Stop()
	defer s.tape.quiet.Stop()
	for s.end == nil {
		s.show()
		s.write(ctx)
		toNode, nodeFrame := s.node.offer(s.nextForNode)
		toOperator, operatorFrame := s.operator.offer(s.nextForOperator)
		soon, datagram, later := s.node.offerEarly(s.toNode)
		if !later.IsZero() {
			s.repeatTimer.Reset(time.Until(later))
		}
		select {
		case <-ctx.Done():
			s.finish("relay_stopping", "the relay stops")
			s.end.lasts = true
		case f := <-s.calls:
			f()
		case toNode <- nodeFrame:
			s.node.pending = nil
		case toOperator <- operatorFrame:
			s.operator.pending = nil
		case soon <- datagram:
			s.node.soon = nil
		case f, more := <-s.node.frames():
			if !more {
				s.nodeLeft()
			} else if err := s.fromNode(f); err != nil {
				s.nodeBroke(err)
			}
		case f := <-s.node.earlyFrames():
			if err := s.earlyFromNode(f); err != nil {
				s.nodeBroke(err)
			}
		case f, more := <-s.operator.frames():
			if !more {
				s.operatorLeft(nil)
			} else if err := s.fromOperator(f); err != nil {
				s.operatorLeft(err)
			}
		case w := <-s.tape.written:
			s.wrote(w)
		case d := <-s.denied:
			s.handleDenial(d)
		case <-s.repeatTimer.C:
		case <-s.tape.quiet.C:
		case <-tick.C:
			s.look(s.relay.c.Now())
		}
		s.out.forget(s.seen())
		s.afterExit()
		s.afterGone()
	}
	close(s.ended)
	s.close(context.WithoutCancel(ctx))
}

// look ends the session when a time limit is reached or the node stays away, and drops a dead side.
func (s *session) look(now time.Time) {
	l := s.row.Limits
	after := func(limit time.Duration, since time.Time) bool { return limit > 0 && !now.Before(since.Add(limit)) }
	switch {
	case after(l.Max, s.row.CreatedAt):
		s.finish("terminal_time_over", "the session reached its time limit")
	case after(l.Idle, s.lastInput):
		s.finish("terminal_idle", "no key was pressed for too long")
	case s.row.ProjectID != "" && s.out.kept > s.relay.c.MemberOutput:
		s.finish("terminal_output_over", "the session showed as much as a member's session may")
	case s.exit != nil: // afterExit decides the end
	case s.operator == nil && after(l.Detach, s.operatorGone):
		s.finish("terminal_detached", "its operator did not come back")
	case s.node == nil && s.in == nil && after(openWithin, s.nodeGone):
		s.finish("terminal_node_never_came", "the node did not connect")
	case s.node == nil && s.in != nil && after(l.Detach, s.nodeGone):
		s.finish("terminal_node_gone", "the node did not come back")
	}
	s.lookAtCertificate(now)
	if s.exit == nil && s.node.dead(s.relay.c.DeadAfter) { // an exited node does not answer Pings
		s.dropNode(broken)
	}
	if s.operator.dead(s.relay.c.DeadAfter) {
		s.dropOperator(broken)
	}
	s.tape.waits, s.late = false, true
}

// status derives the session's status from its sides.
func (s *session) status() broker.TerminalStatus {
	switch {
	case s.node != nil && s.operator != nil:
		return broker.TerminalOpen
	case s.in == nil && s.row.Status == broker.TerminalOpening, s.exit != nil && s.operator != nil:
		return s.row.Status
	}
	return broker.TerminalDetached
}

// state returns the node's state for the operator.
func (s *session) state() frame.State {
	if s.node == nil {
		return frame.State{Node: frame.NodeAway}
	}
	return frame.State{Node: frame.NodeHere, Transport: s.transport}
}

// seen returns the position before which output need not be held for an operator. Until the first
// operator has come, that is the beginning of the output, except at a relay that continues another
// relay's session.
func (s *session) seen() uint64 {
	switch {
	case s.operator != nil:
		return s.taken
	case !s.watched && !s.resumed:
		return s.out.from
	}
	return s.out.kept
}

// allow returns the Ack for the node. After a gap the node was told a higher position than is kept:
// nobody has the lost bytes.
func (s *session) allow() frame.Ack {
	return s.in.Pass(max(s.out.kept, s.nodeAck.Taken), s.seen()+s.window.size)
}

// ackDue reports whether an Ack is sent now. Acks of little output are sent at once, Acks of
// much output in batches of 32 KiB, and the rest with the next tick. The delayed part is small
// against the window, so a long path is still used well.
func (s *session) ackDue(a frame.Ack) bool {
	kept, more := a.Taken-s.nodeAck.Taken, a.Limit-s.nodeAck.Limit
	return kept < few && more < few || max(kept, more) >= outputWindow/8 || s.late || s.nodeEOF
}

// nodeBroke ends the session of a node that breaks the protocol.
func (s *session) nodeBroke(err error) {
	s.finish(string(taskcatalog.CodeOf(err, frame.CodeInvalid)), err.Error())
	s.end.attack = true
}

// broken is the Bye to a side that most likely cannot receive it.
var broken = frame.Bye{Code: codeLost, Text: "the connection broke", Lasts: true}

// nodeLeft notes the end of the node's connection; the node may reconnect.
func (s *session) nodeLeft() {
	if taskcatalog.CodeOf(s.node.err, "") != "" {
		s.nodeBroke(s.node.err)
		return
	}
	s.dropNode(broken)
}

// operatorLeft notes that the operator's connection has ended or must end.
func (s *session) operatorLeft(err error) {
	if err == nil {
		err = s.operator.err // the connection ended by itself
	}
	bye := broken
	if code := taskcatalog.CodeOf(err, ""); code != "" {
		bye.Code, bye.Text = code, taskcatalog.Clean(err.Error(), maxText)
		s.relay.c.Log.Warn("an operator's client broke the protocol", zap.String("session", s.row.ID), zap.Error(err))
	}
	s.dropOperator(bye)
}

func (s *session) dropNode(bye frame.Bye) {
	s.node.end(bye)
	s.node, s.nodeGone = nil, s.relay.c.Now()
}

func (s *session) dropOperator(bye frame.Bye) {
	s.operator.end(bye)
	s.operator, s.operatorGone = nil, s.relay.c.Now()
}
