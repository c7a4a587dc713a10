package relay

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store"
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
	group sync.WaitGroup // of its links and what it writes to the store

	node, operator *link
	peer           pki.Peer // at the other end of node
	nodeGone       time.Time
	operatorGone   time.Time
	lastInput      time.Time

	// Output: from the node, to the recording, to the operator.
	in        *frame.Inflow // nil: the node has not come yet
	out       output
	told      frame.Ack // to the node
	sent      uint64    // to the operator
	taken     uint64    // by him
	limit     uint64    // given by him
	nodeEOF   bool
	eofShown  bool
	exit      *frame.Exit // how the program ended
	exitAt    time.Time
	exitShown bool

	// Input: from the operator, to the node.
	opIn        *frame.Inflow
	toNode      *frame.Outflow
	nodeSent    uint64
	toldOp      frame.Ack
	inputEOF    bool
	eofSent     bool
	size        *frame.Resize // the node is to be told
	signals     []frame.Signal
	first       map[*link]frame.Frame // what a link is sent before all else
	pongs       map[*link]frame.Pong
	resizes     *rate.Limiter
	nodeControl *rate.Limiter
	opControl   *rate.Limiter

	tape tape
	end  *ending
}

// ending is why a session is over.
type ending struct {
	code   string
	reason string
	status *int32
	lasts  bool // it goes on elsewhere: this relay lets go of it
	attack bool // by the node: it is for the audit log
}

func newSession(r *Relay, row broker.TerminalSession, rec *recording.Recorder, began uint64) *session {
	now := r.c.Now()
	s := &session{
		relay: r, row: row, calls: make(chan func()), over: make(chan struct{}),
		nodeGone: now, operatorGone: now, lastInput: now,
		out:   output{from: began, kept: began},
		first: map[*link]frame.Frame{}, pongs: map[*link]frame.Pong{},
		resizes:     rate.NewLimiter(resizeRate, resizeBurst),
		nodeControl: rate.NewLimiter(controlRate, controlBurst), opControl: rate.NewLimiter(controlRate, controlBurst),
	}
	s.tape = tape{rec: rec, written: make(chan written, 1)}
	return s
}

// do has run call f; false: the session is over.
func (s *session) do(f func()) bool {
	done := make(chan struct{})
	select {
	case s.calls <- func() { defer close(done); f() }:
		<-done
		return true
	case <-s.over:
		return false
	}
}

// run is the session until it is over and everything that it began has ended.
func (s *session) run(ctx context.Context) {
	defer close(s.over)
	tick := time.NewTicker(s.relay.c.Tick)
	defer tick.Stop()
	for s.end == nil {
		s.write(ctx)
		toNode, nodeFrame := s.node.offer(s.nextForNode)
		toOperator, operatorFrame := s.operator.offer(s.nextForOperator)
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
		case f, more := <-s.node.frames():
			if !more {
				s.nodeLeft()
			} else if err := s.fromNode(f); err != nil {
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
		case <-tick.C:
			s.look(s.relay.c.Now())
		}
		s.out.forget(s.seen())
		s.afterExit()
	}
	s.close(context.WithoutCancel(ctx))
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

// look ends the session when its time is over, or its node is not to be here any more.
func (s *session) look(now time.Time) {
	l := s.row.Limits
	after := func(limit time.Duration, since time.Time) bool { return limit > 0 && !now.Before(since.Add(limit)) }
	switch {
	case s.node != nil && s.relay.c.Denied(s.peer.Serial):
		s.finish(string(pki.CodeCertificateDenied), "the node's certificate is denied")
	case after(l.Max, s.row.CreatedAt):
		s.finish("terminal_time_over", "it lasted as long as a session may")
	case after(l.Idle, s.lastInput):
		s.finish("terminal_idle", "no key was pressed for too long")
	case s.operator == nil && after(l.Detach, s.operatorGone):
		s.finish("terminal_detached", "its operator did not come back")
	case s.node == nil && s.in == nil && after(openWithin, s.nodeGone):
		s.finish("terminal_node_never_came", "the node did not connect")
	case s.node == nil && s.in != nil && after(l.Detach, s.nodeGone):
		s.finish("terminal_node_gone", "the node did not come back")
	}
	s.tape.waits = false
}

// status is where the session stands as its sides are.
func (s *session) status() broker.TerminalStatus {
	switch {
	case s.node != nil && s.operator != nil:
		return broker.TerminalOpen
	case s.in == nil && s.row.Status == broker.TerminalOpening:
		return broker.TerminalOpening
	}
	return broker.TerminalDetached
}

// seen is up to where output is held for somebody.
func (s *session) seen() uint64 {
	if s.operator != nil {
		return s.taken
	}
	return s.out.kept
}

// allow is the Ack that the node should have. After a gap it was told of more than is kept:
// nobody has that.
func (s *session) allow() frame.Ack {
	return s.in.Pass(max(s.out.kept, s.told.Taken), s.seen()+outputWindow)
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
	s.drop(s.node, bye)
	s.node, s.nodeGone = nil, s.relay.c.Now()
}

func (s *session) dropOperator(bye frame.Bye) {
	s.drop(s.operator, bye)
	s.operator, s.operatorGone = nil, s.relay.c.Now()
}

func (s *session) drop(l *link, bye frame.Bye) {
	l.end(bye)
	delete(s.first, l)
	delete(s.pongs, l)
}

// afterExit ends the session whose program has, once all that it wrote was seen.
func (s *session) afterExit() {
	if s.exit == nil || s.tape.busy() {
		return
	}
	late := !s.relay.c.Now().Before(s.exitAt.Add(lastWords))
	if s.operator == nil || late || s.taken == s.out.kept && s.exitShown && s.operator.pending == nil {
		s.finish(codeExited, "its program ended")
	}
}

// close ends the recording and says so in the store, and tells both sides: once it is sure
// that the session is still this relay's to end, or that nobody can say.
func (s *session) close(ctx context.Context) {
	s.tape.settle()
	end := store.TerminalMove{To: broker.TerminalClosing, Code: s.end.code, Reason: s.end.reason, Replica: s.relay.c.Address}
	if s.end.status != nil {
		status := int(*s.end.status)
		end.ExitStatus = &status
	}
	var closing error
	if !s.end.lasts {
		asked, done := context.WithTimeout(ctx, askWithin)
		_, closing = s.relay.c.DB.MoveTerminalSession(asked, actor, s.row.ID, end)
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
	if !s.end.lasts {
		if err := errors.Join(closing, s.closeRecord(ctx, end)); err != nil {
			s.relay.c.Log.Error("cannot end the record of a terminal session", zap.String("session", s.row.ID), zap.Error(err))
		}
	}
	s.group.Wait()
}
