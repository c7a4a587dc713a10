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

// session is one that this relay has. All but the channels and the group is owned by run.
type session struct {
	relay *Relay
	row   broker.TerminalSession
	calls chan func()
	over  chan struct{}
	ended chan struct{}  // closed before over: nothing is called any more
	group sync.WaitGroup // of its links and what it writes to the store

	node, operator *link
	by             string   // name of the operator
	peer           pki.Peer // at the other end of node
	transport      string   // of node
	denied         chan denial
	asking         bool      // the store, of a certificate that is denied
	deniedSince    time.Time // that of node; zero: it is not
	resumed        bool      // another relay had it
	watched        bool      // an operator was welcome
	nodeGone       time.Time
	operatorGone   time.Time
	shown          atomic.Pointer[standing] // what others may know of it
	lastInput      time.Time

	// Output: from the node, to the recording, to the operator.
	in        *frame.Inflow // nil: the node has not come yet
	out       output
	told      frame.Ack // to the node
	late      bool      // it is to be told what it was not at once
	sent      uint64    // to the operator
	taken     uint64    // by him
	limit     uint64    // given by him
	window    window    // given to the node for him
	nodeEOF   bool
	eofShown  bool
	exit      *frame.Exit // how the program ended
	exitAt    time.Time
	exitShown bool
	progress  time.Time // the operator took something, or came

	// Input: from the operator, to the node.
	opIn        *frame.Inflow
	toNode      *frame.Outflow
	held        []byte // what comes after that, and is to be kept before
	nodeSent    uint64
	toldOp      frame.Ack
	inputEOF    bool
	eofSent     bool
	size        frame.Resize // the last one known; zero: none
	sizeTold    bool         // to this connection of the node
	signals     []frame.Signal
	again       *time.Timer // for the next early repeat
	resizes     *rate.Limiter
	nodeControl *rate.Limiter
	opControl   *rate.Limiter
	moves       *rate.Limiter // of where it stands, that are told
	nodeIdle    *rate.Limiter // frames that bring nothing new
	opIdle      *rate.Limiter

	tape tape
	end  *ending

	goneBy  time.Time // its process on the node is gone: when it ends at the latest; zero: it is not
	goneWhy string
}

// standing is where a session's node is.
type standing struct {
	state frame.State
	by    string    // the operator who is there; empty: nobody
	gone  time.Time // since when it is away, and is to be here; zero: it is here, or need not be
}

// show lets others see it, who do not wait for the session.
func (s *session) show() {
	now := standing{state: s.state()}
	if s.node == nil && s.exit == nil {
		now.gone = s.nodeGone
	}
	if s.operator != nil {
		now.by = s.by
	}
	if had := s.shown.Load(); had == nil || *had != now {
		s.shown.Store(&now)
	}
}

func newSession(r *Relay, row broker.TerminalSession, rec *recording.Recorder, from begun) *session {
	now := r.c.Now()
	s := &session{
		relay: r, row: row, calls: make(chan func()), over: make(chan struct{}), ended: make(chan struct{}), denied: make(chan denial, 1),
		nodeGone: now, operatorGone: now, lastInput: now, resumed: from.resumed,
		out:         output{from: from.at, kept: from.at},
		window:      newWindow(now, from.at),
		again:       time.NewTimer(time.Hour),
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
	if row.ExitStatus != nil { // the relay before was told, and nobody has what was written last
		s.exit, s.exitAt = &frame.Exit{Status: int32(*row.ExitStatus)}, now
		s.in, s.toNode = frame.NewInflow(from.at), frame.NewOutflow(0)
	}
	s.show()
	return s
}

// do has run call f; false: the session is over, or ends.
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

// run is the session until it is over and everything that it began has ended.
func (s *session) run(ctx context.Context) {
	defer close(s.over)
	tick := time.NewTicker(s.relay.c.Tick)
	defer tick.Stop()
	defer s.again.Stop()
	defer s.tape.quiet.Stop()
	for s.end == nil {
		s.show()
		s.write(ctx)
		toNode, nodeFrame := s.node.offer(s.nextForNode)
		toOperator, operatorFrame := s.operator.offer(s.nextForOperator)
		soon, datagram, later := s.node.offerEarly(s.toNode)
		if !later.IsZero() {
			s.again.Reset(time.Until(later))
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
			s.judged(d)
		case <-s.again.C:
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

// look ends the session when its time is over, or its node is not to be here any more, and
// lets go of a side that is dead.
func (s *session) look(now time.Time) {
	l := s.row.Limits
	after := func(limit time.Duration, since time.Time) bool { return limit > 0 && !now.Before(since.Add(limit)) }
	switch {
	case after(l.Max, s.row.CreatedAt):
		s.finish("terminal_time_over", "it lasted as long as a session may")
	case after(l.Idle, s.lastInput):
		s.finish("terminal_idle", "no key was pressed for too long")
	case s.exit != nil: // afterExit knows when it is over
	case s.operator == nil && after(l.Detach, s.operatorGone):
		s.finish("terminal_detached", "its operator did not come back")
	case s.node == nil && s.in == nil && after(openWithin, s.nodeGone):
		s.finish("terminal_node_never_came", "the node did not connect")
	case s.node == nil && s.in != nil && after(l.Detach, s.nodeGone):
		s.finish("terminal_node_gone", "the node did not come back")
	}
	s.lookAtCertificate(now)
	if s.exit == nil && s.node.dead(s.relay.c.DeadAfter) { // whoever has ended answers no more
		s.dropNode(broken)
	}
	if s.operator.dead(s.relay.c.DeadAfter) {
		s.dropOperator(broken)
	}
	s.tape.waits, s.late = false, true
}

// status is where the session stands as its sides are.
func (s *session) status() broker.TerminalStatus {
	switch {
	case s.node != nil && s.operator != nil:
		return broker.TerminalOpen
	case s.in == nil && s.row.Status == broker.TerminalOpening, s.exit != nil && s.operator != nil:
		return s.row.Status
	}
	return broker.TerminalDetached
}

// state is what the operator is told of the node.
func (s *session) state() frame.State {
	if s.node == nil {
		return frame.State{Node: frame.NodeAway}
	}
	return frame.State{Node: frame.NodeHere, Transport: s.transport}
}

// seen is up to where output is held for nobody: for the first operator, who may come after
// the node, it is from its beginning.
func (s *session) seen() uint64 {
	switch {
	case s.operator != nil:
		return s.taken
	case !s.watched && !s.resumed:
		return s.out.from
	}
	return s.out.kept
}

// allow is the Ack that the node should have. After a gap it was told of more than is kept:
// nobody has that.
func (s *session) allow() frame.Ack {
	return s.in.Pass(max(s.out.kept, s.told.Taken), s.seen()+s.window.size)
}

// worthTelling has the node be told of much output together, or with the next tick. What it
// is told late is little of its window, so that a long way is as well used.
func (s *session) worthTelling(a frame.Ack) bool {
	kept, more := a.Taken-s.told.Taken, a.Limit-s.told.Limit
	return kept < few && more < few || max(kept, more) >= outputWindow/8 || s.late || s.nodeEOF
}

// nodeBroke ends the session of a node that breaks the protocol.
func (s *session) nodeBroke(err error) {
	s.finish(string(taskcatalog.CodeOf(err, frame.CodeInvalid)), err.Error())
	s.end.attack = true
}

// broken is the Bye to a side that most likely does not hear it.
var broken = frame.Bye{Code: codeLost, Text: "the connection broke", Lasts: true}

// nodeLeft notes that the node's connection has ended, which it may replace.
func (s *session) nodeLeft() {
	if taskcatalog.CodeOf(s.node.err, "") != "" {
		s.nodeBroke(s.node.err)
		return
	}
	s.dropNode(broken)
}

// operatorLeft notes that the operator's connection has ended, or has to.
func (s *session) operatorLeft(err error) {
	if err == nil {
		err = s.operator.err // it has ended by itself
	}
	bye := broken
	if code := taskcatalog.CodeOf(err, ""); code != "" {
		bye.Code, bye.Text = code, taskcatalog.Clean(err.Error(), maxText)
		s.relay.c.Log.Warn("an operator's side broke the protocol", zap.String("session", s.row.ID), zap.Error(err))
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
