package relay_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// conn is a node's connection, by hand.
type conn struct {
	*site
	io.ReadWriter
	reader *frame.Reader
	quic   *quic.Conn
	close  func()
}

func (s *site) dial(over string, n pkitest.Node) *conn {
	s.Helper()
	return s.dialWith(over, n, &quic.Config{MaxIncomingStreams: -1, EnableDatagrams: true})
}

func (s *site) dialWith(over string, n pkitest.Node, config *quic.Config) *conn {
	s.Helper()
	if over == "tls" {
		c, err := tls.Dial("tcp", s.addr, s.clientTLS(n))
		if err != nil {
			s.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		s.Cleanup(func() { _ = c.Close() })
		return &conn{site: s, ReadWriter: c, reader: frame.NewReader(c), close: func() { _ = c.NetConn().Close() }}
	}
	c, err := quic.DialAddr(ctx, s.addr, s.clientTLS(n), config)
	if err != nil {
		s.Fatal(err)
	}
	stream := must(c.OpenStream())(s)
	_ = stream.SetDeadline(time.Now().Add(patience))
	s.Cleanup(func() { _ = c.CloseWithError(0, "") })
	return &conn{site: s, ReadWriter: stream, reader: frame.NewReader(stream), quic: c, close: func() { _ = c.CloseWithError(9, "killed") }}
}

func (c *conn) send(frames ...frame.Frame) {
	c.Helper()
	var raw []byte
	for _, f := range frames {
		raw = must(frame.Append(raw, f))(c)
	}
	if _, err := c.Write(raw); err != nil {
		c.Fatalf("cannot send: %v", err)
	}
}

func (c *conn) next() frame.Frame {
	c.Helper()
	f, err := c.reader.Next()
	if err != nil {
		c.Fatalf("nothing came: %v", err)
	}
	if d, ok := f.(frame.Data); ok {
		d.Bytes = bytes.Clone(d.Bytes)
		return d
	}
	return f
}

// until reads up to a frame of an accepted type.
func until[F frame.Frame](t testing.TB, next func() frame.Frame, will func(F) bool) F {
	t.Helper()
	for {
		f := next()
		if got, ok := f.(F); ok && (will == nil || will(got)) {
			return got
		}
		if bye, ok := f.(frame.Bye); ok {
			t.Fatalf("it was ended instead: %+v", bye)
		}
	}
}

// join sends Hello and receives the Welcome.
func (s *site) join(over, token string, h frame.Hello) (*conn, frame.Welcome) {
	s.Helper()
	c := s.dial(over, s.node)
	h.Version, h.SessionID, h.Token = frame.Version, "ts-1", token
	c.send(h)
	return c, until[frame.Welcome](s, c.next, nil)
}

// operator is a manual operator's side that reads only when the test reads.
type operator struct {
	*site
	to, from chan frame.Frame
	gone     chan struct{}
	once     sync.Once
}

func (o *operator) Next() (frame.Frame, error) {
	select {
	case f := <-o.to:
		return f, nil
	case <-o.gone:
		return nil, io.EOF
	}
}

func (o *operator) Send(f frame.Frame) error {
	select {
	case o.from <- f:
		return nil
	case <-o.gone:
		return io.ErrClosedPipe
	}
}

func (o *operator) Close() error { o.once.Do(func() { close(o.gone) }); return nil }

func (s *site) attach(h frame.Hello) *operator {
	s.Helper()
	o := &operator{site: s, to: make(chan frame.Frame), from: make(chan frame.Frame), gone: make(chan struct{})}
	if err := s.relay.Attach("ts-1", "olga", h, o); err != nil {
		s.Fatal(err)
	}
	return o
}

func (o *operator) send(f frame.Frame) {
	o.Helper()
	for {
		select {
		case o.to <- f:
			return
		case <-o.gone:
			o.Fatal("the relay has closed it")
		case <-time.After(patience):
			o.Fatal("the relay does not read")
		}
	}
}

func (o *operator) next() frame.Frame {
	o.Helper()
	select {
	case f := <-o.from:
		return f
	case <-o.gone:
		o.Fatal("the relay has closed it")
	case <-time.After(patience):
		o.Fatalf("nothing came:\n%s", stacks())
	}
	return nil
}

// drain reads all frames and acknowledges none, up to the Bye.
func (o *operator) drain(told chan<- frame.Bye) {
	go func() {
		for {
			select {
			case f := <-o.from:
				if bye, ok := f.(frame.Bye); ok {
					if told != nil {
						told <- bye
					}
					_ = o.Close()
					return
				}
			case <-o.gone:
				return
			}
		}
	}()
}

// byeOf reads up to the Bye.
func byeOf(t testing.TB, next func() frame.Frame) frame.Bye {
	t.Helper()
	for {
		if bye, ok := next().(frame.Bye); ok {
			return bye
		}
	}
}

// tryBoth connects over both protocols, and fails if both fail. With TLS 1.3 a refusal arrives
// after the client's handshake, so tryBoth waits for an answer to a Ping.
func (s *site) tryBoth(config *tls.Config) error {
	within, done := context.WithTimeout(ctx, patience)
	defer done()
	answered := func(c io.ReadWriter) error {
		raw, _ := frame.Append(nil, frame.Ping{})
		if _, err := c.Write(raw); err != nil {
			return err
		}
		f, err := frame.NewReader(c).Next()
		if bye, ok := f.(frame.Bye); err == nil && (!ok || bye.Code != "frame_unexpected") {
			s.Errorf("it was answered %+v", f)
		}
		return err
	}
	over1 := func() error {
		c, err := quic.DialAddr(within, s.addr, config, &quic.Config{})
		if err != nil {
			return err
		}
		defer c.CloseWithError(0, "") //nolint:errcheck // it is over
		stream, err := c.OpenStreamSync(within)
		if err != nil {
			return err
		}
		_ = stream.SetDeadline(time.Now().Add(patience))
		return answered(stream)
	}()
	over2 := func() error {
		c, err := (&tls.Dialer{Config: config}).DialContext(within, "tcp", s.addr)
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // it is over
		_ = c.SetDeadline(time.Now().Add(patience))
		return answered(c)
	}()
	if over1 == nil || over2 == nil {
		return nil
	}
	return errors.Join(over1, over2)
}
