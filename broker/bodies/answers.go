package bodies

import (
	"bufio"
	"net"
	"net/http"
	"time"
)

const (
	// Take is how long a client may take to take a piece of an answer.
	Take = 30 * time.Second
	// piece is how much of an answer has one such time.
	piece = 64 << 10
)

// timed gives a client a time for each piece of an answer.
type timed struct {
	http.ResponseWriter
	control *http.ResponseController
	within  time.Duration
	own     bool // the handler has set a deadline
	taken   bool // the handler has the connection
}

// allow gives the client time from now on; of the connection: the machine's own clock.
func (t *timed) allow() {
	if !t.own && !t.taken {
		_ = t.control.SetWriteDeadline(time.Now().Add(t.within))
	}
}

func (t *timed) allowed() {
	if !t.own && !t.taken {
		_ = t.control.SetWriteDeadline(time.Time{})
	}
}

// Write is of http.ResponseWriter.
func (t *timed) Write(p []byte) (written int, err error) {
	for {
		t.allow()
		n, err := t.ResponseWriter.Write(p[:min(len(p), piece)])
		written, p = written+n, p[n:]
		if err != nil || len(p) == 0 {
			t.allowed()
			return written, err
		}
	}
}

// FlushError is what http.ResponseController calls.
func (t *timed) FlushError() error {
	t.allow()
	defer t.allowed()
	return t.control.Flush()
}

// SetWriteDeadline is what http.ResponseController calls.
func (t *timed) SetWriteDeadline(deadline time.Time) error {
	t.own = !deadline.IsZero()
	return t.control.SetWriteDeadline(deadline)
}

// Hijack is of http.Hijacker.
func (t *timed) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := t.control.Hijack()
	t.taken = err == nil
	return conn, rw, err
}

// Unwrap lets the rest of what a controller can do through.
func (t *timed) Unwrap() http.ResponseWriter { return t.ResponseWriter }
