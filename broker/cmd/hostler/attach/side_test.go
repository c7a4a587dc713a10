package attach

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/escape"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// side is the broker's side of a test: its answers to dials, and its connections.
type side struct {
	*testing.T
	Config
	keyboard *io.PipeWriter
	out      *screenOf
	notes    *screenOf
	dials    chan *conn
	refuse   chan error // before the next dial succeeds
	closed   int
	looked   End
	ended    chan struct{}
	end      End
	err      error
	stop     context.CancelFunc
}

// screenOf is a terminal that may stop accepting output.
type screenOf struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	hold chan struct{}
	err  error
}

func (s *screenOf) Write(b []byte) (int, error) {
	s.mu.Lock()
	hold, err := s.hold, s.err
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf.Write(b)
	return len(b), err
}

func (s *screenOf) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// conn is a connection controlled by the test.
type conn struct {
	*testing.T
	to, from chan frame.Frame
	gone     chan struct{}
	once     sync.Once
	why      error
}

func (c *conn) Next() (frame.Frame, error) {
	select {
	case f := <-c.to:
		return f, nil
	case <-c.gone:
		return nil, errors.Join(io.EOF, c.why)
	}
}

func (c *conn) Send(f frame.Frame) error {
	select {
	case c.from <- f:
		return nil
	case <-c.gone:
		return io.ErrClosedPipe
	}
}

func (c *conn) Close() error { c.once.Do(func() { close(c.gone) }); return nil }

func (c *conn) send(frames ...frame.Frame) {
	c.Helper()
	for _, f := range frames {
		select {
		case c.to <- f:
		case <-c.gone:
			c.Fatalf("the operator has closed it, and is to be sent %+v", f)
		case <-time.After(time.Minute):
			c.Fatalf("the operator does not read %+v", f)
		}
	}
}

// next is the next frame, except for sizes, acknowledgements and signs of life.
func (c *conn) next() frame.Frame {
	c.Helper()
	for {
		select {
		case f := <-c.from:
			switch f.(type) {
			case frame.Resize, frame.Ack, frame.Ping:
				continue
			}
			return f
		case <-c.gone:
			c.Fatal("the operator has closed it")
		case <-time.After(time.Minute):
			c.Fatal("nothing comes")
		}
	}
}

func (c *conn) data() string {
	c.Helper()
	f, ok := c.next().(frame.Data)
	if !ok {
		c.Fatalf("%+v", f)
	}
	return string(f.Bytes)
}

// until reads up to a frame of a type that satisfies will.
func until[F frame.Frame](c *conn, will func(F) bool) F {
	c.Helper()
	for {
		select {
		case f := <-c.from:
			if got, ok := f.(F); ok && will(got) {
				return got
			}
		case <-c.gone:
			c.Fatal("the operator has closed it")
		case <-time.After(time.Minute):
			c.Fatal("it does not come")
		}
	}
}

func start(t *testing.T, with func(*side)) *side {
	keys, keyboard := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	s := &side{T: t, keyboard: keyboard, out: &screenOf{}, notes: &screenOf{}, dials: make(chan *conn), refuse: make(chan error, 100), ended: make(chan struct{}), stop: stop}
	s.Config = Config{
		ID: "ts-1", In: keys, Out: s.out, Err: s.notes, Keyboard: true, Screen: true, Filter: escape.Policy{Answers: true},
		Size: func() frame.Resize { return frame.Resize{Columns: 80, Rows: 24} }, Resized: make(chan os.Signal), Detach: 10 * time.Minute,
		Begin: func() error { return nil },
		Dial: func(ctx context.Context) (Conn, error) {
			select {
			case err := <-s.refuse:
				return nil, err
			default:
			}
			c := &conn{T: t, to: make(chan frame.Frame), from: make(chan frame.Frame), gone: make(chan struct{})}
			select {
			case s.dials <- c:
				return c, nil
			case <-ctx.Done():
				return nil, broker.Errorf(broker.Unavailable, "broker_unreachable", "no broker")
			}
		},
		Look:  func(context.Context) (End, error) { return s.looked, nil },
		Close: func(context.Context) error { s.closed++; return nil },
	}
	if with != nil {
		with(s)
	}
	go func() {
		defer close(s.ended)
		s.end, s.err = Run(ctx, s.Config)
	}()
	return s
}

// accept takes a connection with its Hello.
func (s *side) accept() (*conn, frame.Hello) {
	s.Helper()
	select {
	case c := <-s.dials:
		h, ok := c.next().(frame.Hello)
		if !ok || h.SessionID != "ts-1" || h.Version != frame.Version || h.Token != "" {
			s.Fatalf("%+v", h)
		}
		return c, h
	case <-time.After(time.Hour):
		s.Fatal("nobody dials")
	}
	return nil, frame.Hello{}
}

// join accepts a connection and sends Welcome.
func (s *side) join() *conn {
	s.Helper()
	c, _ := s.accept()
	c.send(frame.Welcome{Version: frame.Version, Limit: 64 << 10})
	return c
}

func (s *side) keyed(text string) {
	s.Helper()
	if _, err := s.keyboard.Write([]byte(text)); err != nil {
		s.Fatal(err)
	}
}

// over waits until Run has returned.
func (s *side) over() End {
	s.Helper()
	select {
	case <-s.ended:
	case <-time.After(time.Hour):
		s.Fatal("it does not end")
	}
	s.keyboard.Close() //nolint:errcheck // for the goroutine that reads it
	return s.end
}

func status(n int32) *int32 { return &n }

const put = "\x1b[0m\x1b(B\x0f"
