package nodeapi

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// idleGrace is the time that connections in idleConns may still take after clear begins. It is
// shorter than the time in which the broker must stop.
const idleGrace = 3 * time.Second

// idleConns holds the connections whose poll is parked or was answered. The server has released
// these connections and gets them back with their next request, through its net.Listener
// interface.
type idleConns struct {
	work sync.WaitGroup // waiting polls and quiet connections
	// looks is the context of their database queries.
	looks    context.Context
	endLooks context.CancelFunc

	back   chan net.Conn
	mu     sync.Mutex
	served *http.Server      // takes the connections back; nil: not known yet
	conns  map[net.Conn]bool // true: the connection is quiet
	over   chan struct{}
	closed bool
}

func newIdleConns() *idleConns {
	l := &idleConns{back: make(chan net.Conn), conns: map[net.Conn]bool{}, over: make(chan struct{})}
	l.looks, l.endLooks = context.WithCancel(context.Background())
	return l
}

// take runs wait for a connection in a goroutine of its own, unless the idleConns is closed.
func (l *idleConns) take(c net.Conn, wait func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.conns[c] = false
	l.work.Go(func() {
		defer l.remove(c)
		wait()
	})
	return true
}

func (l *idleConns) remove(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// serveBy makes a server take connections back; the first server that releases a connection is
// used.
func (l *idleConns) serveBy(s *http.Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.served == nil {
		l.served = s
		go func() { _ = s.Serve(l) }() // ends when the server ends
	}
}

// idle waits for the first byte of a connection's next request, and hands the connection to the
// server.
func (l *idleConns) idle(c *returned) {
	if !l.rest(c) {
		_ = c.Close()
		return
	}
	n, err := c.Conn.Read(c.first[:])
	l.remove(c.Conn)
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

// rest marks a connection as quiet and limits its quiet time.
func (l *idleConns) rest(c *returned) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.conns[c.Conn] = true
	_ = c.Conn.SetReadDeadline(time.Now().Add(idleTime)) // under the lock, so not after the deadline that Close sets
	return true
}

// Accept implements net.Listener.
func (l *idleConns) Accept() (net.Conn, error) {
	select {
	case c := <-l.back:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

// Close ends the quiet connections and takes no connection back any more. Close implements
// net.Listener; the server calls Close when it ends.
func (l *idleConns) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	close(l.over)
	for c, quiet := range l.conns {
		if quiet {
			_ = c.SetReadDeadline(longAgo)
		}
	}
	return nil
}

// clear closes the idleConns and returns when the idleConns is empty. After idleGrace, pending work
// is aborted: a query that the database does not answer, and an answer that the node does not read.
func (l *idleConns) clear() {
	_ = l.Close()
	defer l.endLooks()
	defer time.AfterFunc(idleGrace, l.breakOff).Stop()
	l.work.Wait()
}

func (l *idleConns) breakOff() {
	l.endLooks()
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if over, ok := c.(*tls.Conn); ok {
			c = over.NetConn() // without a TLS close message, on which it might block
		}
		_ = c.Close()
	}
}

// Addr implements net.Listener.
func (l *idleConns) Addr() net.Addr { return &net.UnixAddr{Name: "parked polls", Net: "unix"} }

// returned is a connection that the server held before, with the first byte of its next request.
type returned struct {
	net.Conn
	connection *connection
	first      [1]byte
	unread     bool
}

// Read implements net.Conn.
func (c *returned) Read(b []byte) (int, error) {
	if c.unread && len(b) > 0 {
		c.unread = false
		b[0] = c.first[0]
		return 1, nil
	}
	return c.Conn.Read(b)
}

// ConnectionState gives the server the TLS state, and with it the peer's certificate.
func (c *returned) ConnectionState() tls.ConnectionState {
	if conn, ok := c.Conn.(*tls.Conn); ok {
		return conn.ConnectionState()
	}
	return tls.ConnectionState{}
}
