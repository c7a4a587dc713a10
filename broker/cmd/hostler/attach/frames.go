package attach

import (
	"bytes"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Codes of a connection that another connection has replaced, here or at another relay. A client
// that came back by itself would start an endless contest for the session.
const (
	codeReplaced = "connection_replaced"
	codeMoved    = "terminal_moved"
)

func codeOf(err error) taskcatalog.Code { return taskcatalog.CodeOf(err, "") }

// protocol ends the session after a protocol error: this program and the broker speak different
// versions, or an attacker stands between them.
func (o *operator) protocol(err error) {
	o.fail(broker.Errorf(broker.Internal, string(taskcatalog.CodeOf(err, frame.CodeInvalid)),
		"cannot continue session %s: the broker sent an unexpected frame: %v (compare hostler version with hostler status)", o.ID, err))
}

// take handles a frame from the relay.
func (o *operator) take(f frame.Frame) {
	o.heard, o.link.pinged = time.Now(), false
	if o.over() {
		return
	}
	var err error
	switch f := f.(type) {
	case frame.Welcome:
		err = o.welcomed(f)
	case frame.State:
		o.handleState(f)
	case frame.Ping:
		o.link.first = append(o.link.first, frame.Pong(f))
	case frame.Pong:
	case frame.Bye:
		o.bye(f)
	default:
		if !o.link.welcome {
			err = unexpected(f)
			break
		}
		err = o.takeJoined(f)
	}
	if err != nil {
		o.protocol(err)
	}
}

func unexpected(f frame.Frame) error {
	return taskcatalog.Errorf("frame_unexpected", "a frame of kind %d is not expected here", f.Kind())
}

func (o *operator) takeJoined(f frame.Frame) error {
	switch f := f.(type) {
	case frame.Data:
		fresh, err := o.in.Take(f)
		if err == nil && len(fresh) > 0 {
			o.screen.show(fresh)
		}
		return err
	case frame.Ack:
		return o.out.Acked(f)
	case frame.EOF:
		_, err := o.in.End(f)
		return err
	case frame.Exit:
		o.exit = &f
		return nil
	}
	return unexpected(f)
}

// welcomed continues both directions from the positions of the Welcome.
func (o *operator) welcomed(w frame.Welcome) error {
	if o.link.welcome || w.Version != frame.Version {
		return unexpected(w)
	}
	o.link.welcome, o.link.since = true, time.Now()
	if !o.began {
		o.in, o.out = frame.NewInflow(w.From), frame.NewOutflow(w.Taken)
		if o.New {
			o.lost = w.From
		}
		if err := o.begin(); err != nil {
			return nil
		}
	} else {
		o.note("back, after %s", time.Since(o.away).Round(tick))
		if w.From > o.in.Taken() {
			o.note("%d bytes of output are not shown (hostler recording play %s has what was recorded)", w.From-o.in.Taken(), o.ID)
			o.screen.filter.Lost()
			o.lost += w.From - o.in.Taken()
			o.in = frame.NewInflow(w.From)
		}
		if w.Taken > o.out.Sent() {
			o.note("somebody else has typed into the session meanwhile; input from here that had not arrived is dropped")
			o.out, o.typed = frame.NewOutflow(w.Taken), nil
		}
	}
	if _, err := o.out.Part(w.Taken); err != nil {
		return err
	}
	o.out.ResetLimit(w.Limit)
	if err := o.out.Acked(frame.Ack{Taken: w.Taken}); err != nil {
		return err
	}
	o.sent, o.lastAck, o.link.eofSent = w.Taken, frame.Ack{}, false
	o.allow()
	return nil
}

// begin handles the first Welcome.
func (o *operator) begin() error {
	o.began, o.screen.raw = true, o.Keyboard
	if err := o.Begin(); err != nil {
		o.fail(err)
		o.closeSession()
		return err
	}
	go o.read() // runs until the process ends, because nothing ends a read of a terminal
	return nil
}

func (o *operator) read() {
	defer close(o.stdin)
	buf := make([]byte, 4096)
	for {
		n, err := o.In.Read(buf)
		if n > 0 {
			select {
			case o.stdin <- bytes.Clone(buf[:n]):
			case <-o.ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// input is the source of typed bytes, while there is room for them.
func (o *operator) input() <-chan []byte {
	if !o.began || o.eof || o.over() || o.leaving != 0 || len(o.typed) >= maxTyped {
		return nil
	}
	return o.stdin
}

// keyed handles typed bytes.
func (o *operator) keyed(b []byte) {
	if !o.Keyboard {
		o.typed = append(o.typed, b...)
		return
	}
	for len(b) > 0 {
		input, escape, rest := o.keys.take(b)
		o.typed = append(o.typed, input...)
		switch escape {
		case '.', 'd':
			o.leave(escape)
			return
		case '?':
			o.note("%s", Help)
		}
		b = rest
	}
}

func (o *operator) inputEnded() {
	o.eof = true
	if o.Keyboard { // the terminal is gone
		o.leave('d')
	}
}

// handleState reports a change of the node's state.
func (o *operator) handleState(s frame.State) {
	was := o.state
	o.state = s
	switch {
	case s.Node == frame.NodeAway && was.Node == frame.NodeHere:
		o.note("the node is disconnected: typed input waits for it")
		return
	case s.Node == frame.NodeHere && was.Node == frame.NodeAway:
		o.note("the node is back")
	}
	if s.Transport == frame.OverTCP && was.Transport != frame.OverTCP {
		o.note("the node is connected over TCP, as UDP does not get through: on a bad link, typing lags")
	}
}

func (o *operator) bye(f frame.Bye) {
	// Final for this client, whether or not the Bye says that the session lasts.
	if (f.Code == codeReplaced || f.Code == codeMoved) && o.leaving == 0 {
		o.fail(broker.Errorf(broker.Refused, string(f.Code),
			"session %s was attached elsewhere, and continues there (take it back: hostler terminal attach %s)", o.ID, o.ID))
		return
	}
	if f.Lasts {
		o.handleBreak(nil)
		return
	}
	e := End{Code: string(f.Code), Text: f.Text, Asked: o.leaving == '.'}
	if f.Status != nil {
		status := int(*f.Status)
		e.Status = &status
	}
	o.finish(e)
}

// next is the next frame for the relay; nil: none now.
func (o *operator) next() frame.Frame {
	if o.leaving == '.' {
		return o.goodbye()
	}
	if o.resize {
		o.resize = false
		return o.Size()
	}
	if o.link.welcome && !o.over() {
		if f := o.due(); f != nil {
			return f
		}
	}
	if o.leaving != 0 { // earlier input is sent first
		return o.goodbye()
	}
	return nil
}

func (o *operator) goodbye() frame.Frame {
	if o.byeSent {
		return nil
	}
	o.byeSent = true
	return frame.Bye{Code: "operator_left", Text: "by its operator", Lasts: o.leaving == 'd'}
}

// allow is the Ack for the relay: written output counts as taken.
func (o *operator) allow() frame.Ack {
	written := o.in.Taken() - min(o.screen.unseen, o.in.Taken())
	return o.in.Pass(written, written+window)
}

// ackDue delays the Ack of bulk output until enough is written or until the next tick. The
// delay costs only a small part of the window, so that a long path stays well used.
func (o *operator) ackDue(a frame.Ack) bool {
	n := a.Taken - o.lastAck.Taken
	return o.lastAck.Limit == 0 || n < few || n >= window/8 || o.link.late || o.exit != nil || o.in.Ended()
}

// due is the next frame of the two flows of a joined session.
func (o *operator) due() frame.Frame {
	if a := o.allow(); a != o.lastAck && o.ackDue(a) {
		o.lastAck, o.link.late = a, false
		return a
	}
	n := min(o.out.Room(), len(o.typed))
	o.out.Add(o.typed[:n])
	o.typed = o.typed[n:]
	if part, err := o.out.Part(o.sent); err == nil && len(part.Bytes) > 0 {
		o.sent += uint64(len(part.Bytes))
		part.Bytes = bytes.Clone(part.Bytes)
		return part
	}
	if o.eof && !o.Keyboard && len(o.typed) == 0 && !o.link.eofSent {
		o.link.eofSent = true
		return frame.EOF{Offset: o.out.Sent()}
	}
	return nil
}
