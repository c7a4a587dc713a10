package nodeapi

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// lotGrace is how long what is in a lot may still take once that is cleared: less than the
// broker has to stop in.
const lotGrace = 3 * time.Second

// lot is where connections are whose poll is parked, or was answered: the server has let
// go of them, and gets them back with their next request. To the server it is a listener.
type lot struct {
	work sync.WaitGroup // polls that wait, and connections that are quiet
	// looks is the context of what they ask the database.
	looks    context.Context
	endLooks context.CancelFunc

	back   chan net.Conn
	mu     sync.Mutex
	served *http.Server      // that takes them back; nil: none was told yet
	conns  map[net.Conn]bool // to whether it is quiet
	over   chan struct{}
	closed bool
}

func newLot() *lot {
	l := &lot{back: make(chan net.Conn), conns: map[net.Conn]bool{}, over: make(chan struct{})}
	l.looks, l.endLooks = context.WithCancel(context.Background())
	return l
}

// take has a connection wait by itself, in a goroutine of its own, unless the lot is closed.
func (l *lot) take(c net.Conn, wait func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.conns[c] = false
	l.work.Go(func() {
		defer l.let(c)
		wait()
	})
	return true
}

func (l *lot) let(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
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
	n, err := c.Conn.Read(c.first[:])
	l.let(c.Conn)
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

// rest notes that a connection is quiet, and for how long it may be.
func (l *lot) rest(c *returned) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.conns[c.Conn] = true
	_ = c.Conn.SetReadDeadline(time.Now().Add(idleTime)) // not after Close has set another
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
	for c, quiet := range l.conns {
		if quiet {
			_ = c.SetReadDeadline(past)
		}
	}
	return nil
}

// clear closes the lot and returns when nothing is left in it. What hangs is broken off: a
// question that the database does not answer, and an answer that the node does not read.
func (l *lot) clear() {
	_ = l.Close()
	defer l.endLooks()
	defer time.AfterFunc(lotGrace, l.breakOff).Stop()
	l.work.Wait()
}

func (l *lot) breakOff() {
	l.endLooks()
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if over, ok := c.(*tls.Conn); ok {
			c = over.NetConn() // without a word, for which it might wait
		}
		_ = c.Close()
	}
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
