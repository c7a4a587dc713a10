package agenttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

var errAway = errors.New("connection refused")

// memoryListener hands out connections that never leave the process, so that tests can run in fake
// time.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemoryListener() *memoryListener {
	return &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *memoryListener) dial(ctx context.Context) (net.Conn, error) {
	up, down := newStream(), newStream()
	select {
	case l.conns <- &memoryConn{in: up, out: down}:
		return &memoryConn{in: down, out: up}, nil
	case <-l.closed:
		return nil, errAway
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept is part of net.Listener.
func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close is part of net.Listener.
func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is part of net.Listener.
func (l *memoryListener) Addr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "memory:0" }

// memoryConn is an end of a connection. Unlike net.Pipe it has a buffer, like a socket: two ends
// that close at once do not wait for each other.
type memoryConn struct{ in, out *stream }

func (c *memoryConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *memoryConn) Write(p []byte) (int, error) { return c.out.write(p) }

func (c *memoryConn) Close() error {
	c.out.end(io.EOF)
	c.in.end(net.ErrClosed)
	return nil
}

func (c *memoryConn) SetReadDeadline(t time.Time) error { c.in.until(t); return nil }
func (c *memoryConn) SetDeadline(t time.Time) error     { return c.SetReadDeadline(t) }
func (*memoryConn) SetWriteDeadline(time.Time) error    { return nil } // writes do not wait
func (*memoryConn) LocalAddr() net.Addr                 { return memoryAddr{} }
func (*memoryConn) RemoteAddr() net.Addr                { return memoryAddr{} }

// stream is a direction of a connection.
type stream struct {
	mu       sync.Mutex
	changed  sync.Cond
	data     bytes.Buffer
	err      error // once data is empty
	deadline time.Time
	alarm    *time.Timer
}

func newStream() *stream {
	s := new(stream)
	s.changed.L = &s.mu
	return s
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case errors.Is(s.err, net.ErrClosed):
			return 0, s.err
		case !s.deadline.IsZero() && !time.Now().Before(s.deadline):
			return 0, os.ErrDeadlineExceeded
		case s.data.Len() > 0:
			return s.data.Read(p)
		case s.err != nil:
			return 0, s.err
		}
		s.changed.Wait()
	}
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, io.ErrClosedPipe
	}
	s.changed.Broadcast()
	return s.data.Write(p)
}

func (s *stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil || errors.Is(err, net.ErrClosed) {
		s.err = err
	}
	s.changed.Broadcast()
}

func (s *stream) until(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	if s.alarm != nil {
		s.alarm.Stop()
		s.alarm = nil
	}
	// A past deadline needs no alarm. Moreover, in a bubble under the race detector the runtime
	// would run the alarm at once, in a place where it can crash (Go 1.26).
	if left := time.Until(t); !t.IsZero() && left > 0 {
		s.alarm = time.AfterFunc(left, s.changed.Broadcast)
	}
	s.changed.Broadcast()
}
