package relay

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Side is one end of a session: frames from it and to it. Next and Send are each called by
// one goroutine; Close by any, and ends both. Whoever is there answers a Ping.
type Side interface {
	// Next waits for a frame, whose bytes are the caller's. An error with a code is that of
	// one frame; once nothing more comes, as after Close, there is one without.
	Next() (frame.Frame, error)
	// Send returns when the frame is on its way. After a Bye nothing is sent.
	Send(f frame.Frame) error
	Close() error
}

// byeTime is how long a side has to take its Bye and go.
const byeTime = time.Second

// What is read of a side in a second, of frames that cost more than they bring.
const (
	smallRate  = rate.Limit(10_000)
	smallBurst = 10_000
	small      = 1 << 10 // bytes
)

// link reads and writes one side. Its fields are the session's, but for the channels.
type link struct {
	side    Side
	node    *wire            // of a node's side, where it has datagrams
	in      chan frame.Frame // closed when nothing more comes, and err says why
	early   chan frame.Data  // by datagrams; never closed
	out     chan frame.Frame
	outSoon chan []byte // for datagrams
	stop    chan struct{}
	bye     frame.Bye
	err     error

	first   []frame.Frame // sent before all else
	pong    *frame.Pong
	state   frame.State // that it was told last
	pending frame.Frame // what is sent next
	soon    []byte      // and what as a datagram
	repeat  frame.Repeat
	welcome bool      // it was sent its Welcome, and so is asked whether it is there
	heard   time.Time // something of it
	asked   time.Time // last
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

// wait holds up a side that sends more small frames than anybody has to, so that no side
// costs much: those of a program that writes byte by byte are no fault of its node.
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

// drain reads what nobody wants any more, until the side has gone: a Bye is not to be
// overtaken by the end of its connection.
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
		if f == nil { // it costs its node as much as a small one
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

// writeEarly sends datagrams. What is lost of them comes over the stream.
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
				_ = l.side.Close() // the reader comes to know it, and the session from it
				<-l.stop
				return
			}
		case <-l.stop:
			if l.side.Send(l.bye) == nil {
				<-gone // in byeTime at the latest
			}
			return
		}
	}
}

// offer is what the session's select sends: the next frame, or nothing at all.
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

// offerEarly is what the session's select sends as a datagram; else when to ask again, if
// ever.
func (l *link) offerEarly(of *frame.Outflow) (chan<- []byte, []byte, time.Time) {
	if l == nil || l.node == nil || of == nil || of.Sent() == of.From() {
		return nil, nil, time.Time{}
	}
	if l.soon == nil {
		part, later := l.repeat.Next(time.Now(), of, l.node.quic.ConnectionStats().SmoothedRTT)
		if len(part.Bytes) == 0 {
			return nil, nil, later
		}
		l.soon, _ = frame.Append(nil, part) // as long as it is, it is one
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

// begin is what a link is sent before all that its session has for it.
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

// greet has a side be sent its Welcome before all else.
func (l *link) greet(w frame.Welcome) {
	now := time.Now()
	l.first, l.welcome, l.heard, l.asked = append(l.first, w), true, now, now
}

// dead reports whether nothing was heard of a side for so long that was greeted, asking it in
// time whether it is there.
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

// end says goodbye and closes, in byeTime also a side that does not listen.
func (l *link) end(bye frame.Bye) {
	if l == nil || l.ended {
		return
	}
	l.ended, l.bye = true, bye
	close(l.stop)
	time.AfterFunc(byeTime, func() { _ = l.side.Close() })
}
