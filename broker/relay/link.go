package relay

import (
	"sync"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Side is one end of a session: frames from it and to it. Next and Send are each called by
// one goroutine; Close by any, and ends both.
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

// link reads and writes one side. Its fields are the session's, but for the channels.
type link struct {
	side Side
	in   chan frame.Frame // closed when nothing more comes, and err says why
	out  chan frame.Frame
	stop chan struct{}
	bye  frame.Bye
	err  error

	pending frame.Frame // what is sent next
	ended   bool
}

func newLink(group *sync.WaitGroup, side Side) *link {
	l := &link{side: side, in: make(chan frame.Frame), out: make(chan frame.Frame), stop: make(chan struct{})}
	gone := make(chan struct{})
	group.Go(func() { defer close(gone); l.read() })
	group.Go(func() { l.write(gone) })
	return l
}

func (l *link) read() {
	for {
		f, err := l.side.Next()
		if err != nil {
			l.err = err
			close(l.in)
			break
		}
		select {
		case l.in <- f:
		case <-l.stop:
		}
	}
	if taskcatalog.CodeOf(l.err, "") != "" {
		drain(l.side)
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

func (l *link) frames() <-chan frame.Frame {
	if l == nil {
		return nil
	}
	return l.in
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
