package nodeapi

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// lot is where connections are whose poll is parked, or was answered: the server has let
// go of them, and gets them back with their next request. To the server it is a listener.
type lot struct {
	work sync.WaitGroup // polls that wait, and connections that are quiet

	back   chan net.Conn
	mu     sync.Mutex
	served *http.Server // that takes them back; nil: none was told yet
	quiet  map[net.Conn]struct{}
	over   chan struct{}
	closed bool
}

func newLot() *lot {
	return &lot{back: make(chan net.Conn), quiet: map[net.Conn]struct{}{}, over: make(chan struct{})}
}

// serveBy has a server take connections back, from the first that it lets go of.
func (l *lot) serveBy(s *http.Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.served == nil {
		l.served = s
		go func() { _ = s.Serve(l) }() // it ends when the server does
	}
}

// idle waits for the first byte of a connection's next request, and gives it to the server.
func (l *lot) idle(c *returned) {
	if !l.rest(c) {
		_ = c.Close()
		return
	}
	_ = c.Conn.SetReadDeadline(time.Now().Add(idleTime))
	n, err := c.Conn.Read(c.first[:])
	l.mu.Lock()
	delete(l.quiet, c.Conn)
	l.mu.Unlock()
	if n == 0 || err != nil {
		_ = c.Close()
		return
	}
	c.unread = true
	_ = c.Conn.SetReadDeadline(time.Time{})
	select {
	case l.back <- c:
	case <-l.over:
		_ = c.Close()
	}
}

func (l *lot) rest(c *returned) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.quiet[c.Conn] = struct{}{}
	return true
}

// Accept is of net.Listener.
func (l *lot) Accept() (net.Conn, error) {
	select {
	case c := <-l.back:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

// Close ends what is quiet and takes nothing back any more. It is of net.Listener: the
// server calls it when it ends.
func (l *lot) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	close(l.over)
	for c := range l.quiet {
		_ = c.SetReadDeadline(past)
	}
	return nil
}

// Addr is of net.Listener.
func (l *lot) Addr() net.Addr { return &net.UnixAddr{Name: "parked polls", Net: "unix"} }

// returned is a connection that the server has had before, with the first byte of its next
// request.
type returned struct {
	net.Conn
	of     *connection
	first  [1]byte
	unread bool
}

// Read is of net.Conn.
func (c *returned) Read(b []byte) (int, error) {
	if c.unread && len(b) > 0 {
		c.unread = false
		b[0] = c.first[0]
		return 1, nil
	}
	return c.Conn.Read(b)
}

// ConnectionState is where the server finds who is at the other end.
func (c *returned) ConnectionState() tls.ConnectionState {
	if conn, ok := c.Conn.(*tls.Conn); ok {
		return conn.ConnectionState()
	}
	return tls.ConnectionState{}
}
