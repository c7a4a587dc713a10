package bodies

import (
	"bufio"
	"net"
	"net/http"
	"time"
)

const (
	// Take bounds how long a client may take to accept one piece of an answer.
	Take = 30 * time.Second
	// piece is the size of a piece, in bytes.
	piece = 64 << 10
)

// timed is a response writer that sets a deadline for each piece of an answer.
type timed struct {
	http.ResponseWriter
	control *http.ResponseController
	within  time.Duration
	own     bool // the handler has set its own deadline
	taken   bool // the handler has hijacked the connection
}

// allow starts the time limit of a piece, by the system's clock, which a connection's deadlines
// use.
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

// Write implements http.ResponseWriter.
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

// FlushError is called by http.ResponseController.
func (t *timed) FlushError() error {
	t.allow()
	defer t.allowed()
	return t.control.Flush()
}

// SetWriteDeadline is called by http.ResponseController. A zero deadline ends the handler's own
// deadline.
func (t *timed) SetWriteDeadline(deadline time.Time) error {
	t.own = !deadline.IsZero()
	return t.control.SetWriteDeadline(deadline)
}

// Hijack implements http.Hijacker.
func (t *timed) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := t.control.Hijack()
	t.taken = err == nil
	return conn, rw, err
}

// Unwrap gives http.ResponseController the underlying writer for its other functions.
func (t *timed) Unwrap() http.ResponseWriter { return t.ResponseWriter }
