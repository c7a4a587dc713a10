package relay

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Side is one end of a session: a source and a sink of frames. One goroutine calls Next and one
// calls Send. Any goroutine may call Close, which ends both. A Side answers a Ping.
type Side interface {
	// Next waits for a frame; the caller owns the frame's bytes. An error with a code concerns one
	// frame. An error without a code means that no more frames come, as after Close.
	Next() (frame.Frame, error)
	// Send returns when the frame is on its way. Nothing is sent after a Bye.
	Send(f frame.Frame) error
	Close() error
}

// byeTime is the time that a side has to receive its Bye and close.
const byeTime = time.Second

// Limits per second on frames from a side that cost more than they bring.
const (
	smallRate  = rate.Limit(10_000)
	smallBurst = 10_000
	small      = 1 << 10 // bytes
)

// link reads and writes one side. The session owns its fields, except the channels.
type link struct {
	side    Side
	node    *wire            // the node's wire, if it has datagrams
	in      chan frame.Frame // closed when nothing more comes; err then says why
	early   chan frame.Data  // by datagrams; never closed
	out     chan frame.Frame
	outSoon chan []byte // for datagrams
	stop    chan struct{}
	bye     frame.Bye
	err     error

	first   []frame.Frame // sent before all else
	pong    *frame.Pong
	state   frame.State // last state sent
	pending frame.Frame // next frame to send
	soon    []byte      // next datagram to send
	repeat  frame.Repeat
	welcome bool      // the Welcome was sent, so the side is pinged
	heard   time.Time // time of the last frame from the side
	asked   time.Time // time of the last Ping
	ended   bool
}

func newLink(group *sync.WaitGroup, side Side) *link {
	l := &link{
		side: side, in: make(chan frame.Frame), early: make(chan frame.Data), out: make(chan frame.Frame), outSoon: make(chan []byte),
		stop: make(chan struct{}),
	}
	gone := make(chan struct{})
	group.Go(func() { defer close(gone); l.read() })
	group.Go(func() { l.write(gone) })
	if w, ok := side.(*wire); ok && w.quic != nil {
		l.node = w
		group.Go(l.readEarly)
		group.Go(l.writeEarly)
	}
	return l
}

func (l *link) read() {
	pace := rate.NewLimiter(smallRate, smallBurst)
	for {
		f, err := l.side.Next()
		if err != nil {
			l.err = err
			close(l.in)
			break
		}
		l.wait(pace, f)
		select {
		case l.in <- f:
		case <-l.stop:
		}
	}
	if taskcatalog.CodeOf(l.err, "") != "" {
		drain(l.side)
	}
}

// wait slows down a side that sends more small frames than necessary, so that no side costs much.
// Small frames of a program that writes byte by byte are no fault of its node.
func (l *link) wait(pace *rate.Limiter, f frame.Frame) {
	if d, ok := f.(frame.Data); ok && len(d.Bytes) >= small {
		return
	}
	if late := pace.Reserve().Delay(); late > 0 {
		select {
		case <-time.After(late):
		case <-l.stop:
		}
	}
}

// drain reads and discards frames until the side has closed, so that the end of the connection does
// not overtake the Bye.
func drain(side Side) {
	for {
		if _, err := side.Next(); err != nil && taskcatalog.CodeOf(err, "") == "" {
			return
		}
	}
}

func (l *link) readEarly() {
	pace := rate.NewLimiter(smallRate, smallBurst)
	for {
		f, err := l.node.early()
		if err != nil {
			if taskcatalog.CodeOf(err, "") != "" {
				l.node.fail(l.node.quic, err)
			}
			return
		}
		if f == nil { // an empty datagram costs its node as much as a small frame
			l.wait(pace, nil)
			continue
		}
		l.wait(pace, *f)
		select {
		case l.early <- *f:
		case <-l.stop:
			return
		}
	}
}

// writeEarly sends datagrams. Lost datagrams are covered by the stream.
func (l *link) writeEarly() {
	for {
		select {
		case raw := <-l.outSoon:
			_ = l.node.quic.SendDatagram(raw)
		case <-l.stop:
			return
		}
	}
}

func (l *link) write(gone <-chan struct{}) {
	defer l.side.Close() //nolint:errcheck // it is over
	for {
		select {
		case f := <-l.out:
			if l.side.Send(f) != nil {
				_ = l.side.Close() // the reader sees the close, and tells the session
				<-l.stop
				return
			}
		case <-l.stop:
			if l.side.Send(l.bye) == nil {
				<-gone // within byeTime
			}
			return
		}
	}
}

// offer returns the operands of the session's send case: the next frame, or nil.
func (l *link) offer(next func() frame.Frame) (chan<- frame.Frame, frame.Frame) {
	if l == nil {
		return nil, nil
	}
	if l.pending == nil {
		l.pending = next()
	}
	if l.pending == nil {
		return nil, nil
	}
	return l.out, l.pending
}

// offerEarly returns the operands of the send case for datagrams, or the time to ask again, if any.
func (l *link) offerEarly(of *frame.Outflow) (chan<- []byte, []byte, time.Time) {
	if l == nil || l.node == nil || of == nil || of.Sent() == of.From() {
		return nil, nil, time.Time{}
	}
	if l.soon == nil {
		part, later := l.repeat.Next(time.Now(), of, l.node.quic.ConnectionStats().SmoothedRTT)
		if len(part.Bytes) == 0 {
			return nil, nil, later
		}
		l.soon, _ = frame.Append(nil, part) // the frame always fits
	}
	return l.outSoon, l.soon, time.Time{}
}

func (l *link) frames() <-chan frame.Frame {
	if l == nil {
		return nil
	}
	return l.in
}

func (l *link) earlyFrames() <-chan frame.Data {
	if l == nil {
		return nil
	}
	return l.early
}

// begin returns the frames that precede all others of the session.
func (l *link) begin() frame.Frame {
	if len(l.first) > 0 {
		f := l.first[0]
		l.first = l.first[1:]
		return f
	}
	if l.pong != nil {
		f := *l.pong
		l.pong = nil
		return f
	}
	return nil
}

// greet queues the Welcome before all other frames.
func (l *link) greet(w frame.Welcome) {
	now := time.Now()
	l.first, l.welcome, l.heard, l.asked = append(l.first, w), true, now, now
}

// dead reports whether a greeted side has been silent for after. dead sends a Ping in time to find
// out.
func (l *link) dead(after time.Duration) bool {
	if l == nil || !l.welcome {
		return false
	}
	now := time.Now()
	if ask := after / 3; now.Sub(l.heard) >= ask && now.Sub(l.asked) >= ask {
		l.asked, l.first = now, append(l.first, frame.Ping{Nonce: uint64(now.UnixMicro())})
	}
	return now.Sub(l.heard) >= after
}

// end says goodbye and closes, within byeTime even if the side does not read.
func (l *link) end(bye frame.Bye) {
	if l == nil || l.ended {
		return
	}
	l.ended, l.bye = true, bye
	close(l.stop)
	time.AfterFunc(byeTime, func() { _ = l.side.Close() })
}
