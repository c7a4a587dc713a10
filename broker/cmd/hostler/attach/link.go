package attach

import (
	"sync"
	"time"

	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Conn is a connection to the relay. One goroutine calls Next, and one calls Send. Any goroutine
// may call Close, which ends both.
type Conn interface {
	// Next waits for a frame. The caller owns the frame's bytes.
	Next() (frame.Frame, error)
	// Send returns when the frame is on its way.
	Send(f frame.Frame) error
	Close() error
}

// link reads and writes one connection.
type link struct {
	conn Conn
	in   chan frame.Frame // closed when nothing more comes; err has the reason
	out  chan frame.Frame
	stop chan struct{}
	once sync.Once
	err  error

	pending frame.Frame // the frame to send next
	first   []frame.Frame
	welcome bool
	since   time.Time // it is welcome
	pinged  bool      // pinged since the last frame arrived
	eofSent bool
	late    bool // a delayed Ack is due
}

func newLink(group *sync.WaitGroup, conn Conn, first ...frame.Frame) *link {
	l := &link{conn: conn, in: make(chan frame.Frame), out: make(chan frame.Frame), stop: make(chan struct{}), first: first}
	group.Go(l.read)
	group.Go(l.write)
	return l
}

func (l *link) read() {
	defer close(l.in)
	for {
		f, err := l.conn.Next()
		if err != nil {
			l.err = err
			return
		}
		select {
		case l.in <- f:
		case <-l.stop:
			return
		}
	}
}

func (l *link) write() {
	for {
		select {
		case f := <-l.out:
			if l.conn.Send(f) != nil {
				_ = l.conn.Close() // the reader notices
				return
			}
		case <-l.stop:
			return
		}
	}
}

func (l *link) frames() <-chan frame.Frame {
	if l == nil {
		return nil
	}
	return l.in
}

// offer returns the operands of a select: the next frame, or a nil channel.
func (l *link) offer(next func() frame.Frame) (chan<- frame.Frame, frame.Frame) {
	if l == nil {
		return nil, nil
	}
	if l.pending == nil && len(l.first) > 0 {
		l.pending, l.first = l.first[0], l.first[1:]
	}
	if l.pending == nil {
		l.pending = next()
	}
	if l.pending == nil {
		return nil, nil
	}
	return l.out, l.pending
}

func (l *link) close() {
	if l != nil {
		l.once.Do(func() { close(l.stop) })
		_ = l.conn.Close()
	}
}
