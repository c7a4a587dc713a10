package nodeapi

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker/bodies"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

const (
	idleTime = 2 * time.Minute // how long a connection may be quiet between two requests
	lookTime = 30 * time.Second
	// spread is the most by which a poll's hold time is shorter than wire.MaxWait. Nodes that came
	// together, as after a restart, thus do not keep coming together.
	spread = wire.MaxWait / 10
	// wakeInterval is the grain of the polls' ends: all ends within a quarter of a second happen at
	// once. A separate wakeup of threads for each poll would cost more than its answer.
	wakeInterval = time.Second / 4
)

// clockOrigin is the origin of the times at which polls end.
var clockOrigin = time.Now()

// endOf is the end of a poll that begins now and is held for wire.MaxWait minus less. Both times
// are durations since began.
func endOf(now, less time.Duration) time.Duration {
	return (now + wire.MaxWait - less).Truncate(wakeInterval)
}

// parked is a poll without an answer yet, reduced to the cost of one of thousands: the server's
// goroutine, its buffers and the request are gone, and one goroutine that reads the connection is
// left. The read notices at once when the node leaves. The read's deadline is the poll's clock, and
// an early deadline wakes the poll.
type parked struct {
	a          *API
	conn       net.Conn
	connection *connection
	peer       *pki.Peer
	node       *contact
	lanes      []taskcatalog.Lane
	arrivedAt  time.Time // by the broker's clock
	last       bool      // the connection serves no further request
	route      string
	from       string
	leave      func() // leaves the queue, the list of polls and the contact's count; may be called again

	mu    sync.Mutex
	end   time.Time // by this machine's clock, as deadlines are
	woken bool
	cause error // why the poll must end without work; nil: it need not
}

// longAgo is long ago; a read with this deadline returns at once.
var longAgo = time.Unix(1, 0)

// wake makes the poll look for work.
func (p *parked) wake() { p.interrupt(nil) }

// interrupt wakes the poll; a cause ends the poll.
func (p *parked) interrupt(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.woken = true
	if p.cause == nil {
		p.cause = cause
	}
	if p.conn != nil {
		_ = p.conn.SetReadDeadline(longAgo)
	}
}

// hold answers a poll at once if there is work for the node or the poll must not wait, and parks
// the poll otherwise. hold releases the contact's poll at the end.
func (a *API) hold(c *call, lanes []taskcatalog.Lane, brief bool) (any, error) {
	p := &parked{a: a, peer: c.peer, node: c.node, lanes: lanes, arrivedAt: c.arrivedAt, route: c.r.Pattern, from: c.r.RemoteAddr}
	p.last = c.r.Close || !c.r.ProtoAtLeast(1, 1)
	p.connection, _ = c.r.Context().Value(connectionKey{}).(*connection)
	unwatch := a.c.Queue.Watch(c.peer.NodeID, p.wake) // before the look, so that no work is missed in between
	leave := a.polls.join(c.peer.Serial, p.interrupt)
	p.leave = sync.OnceFunc(func() {
		unwatch()
		leave()
		a.contacts.endPoll(p.node, p.peer.NodeID, a.c.Now())
	})
	waits := false
	defer func() {
		if !waits { // also after a panic
			p.leave()
		}
	}()
	reply, err := p.look(c.r.Context(), false)
	if err != nil || brief || reply != nil {
		return reply, err
	}
	conn, buffered, err := http.NewResponseController(c.w).Hijack()
	if back, ok := conn.(*returned); ok {
		conn = back.Conn
	}
	if err == nil && buffered.Reader.Buffered() > 0 {
		err = errors.New("a request arrived before the preceding one was answered")
		_ = conn.Close()
	}
	if conn == nil {
		return nil, err
	}
	if err != nil {
		return streamed, nil // the node has left, or must come again
	}
	if server, ok := c.r.Context().Value(http.ServerContextKey).(*http.Server); ok {
		a.idleConns.serveBy(server)
	}
	if waits = p.park(conn); !waits {
		p.answer(nil, errStopping)
		_ = conn.Close()
	}
	return streamed, nil
}

// park lets the poll wait in the idleConns, unless the broker has stopped.
func (p *parked) park(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn, p.end = conn, clockOrigin.Add(endOf(time.Since(clockOrigin), rand.N(spread)))
	return p.a.idleConns.take(conn, p.wait)
}

// wait is the poll's goroutine. It waits, answers, and gives the connection back to the server with
// its next request.
func (p *parked) wait() {
	defer p.leave()
	defer func() {
		if why := recover(); why != nil { // a panic ends only this poll, like a panic in a request
			p.a.c.Log.Error("a poll panicked", zap.String("node", p.peer.NodeID), zap.Any("panic", why), zap.Stack("stack"))
			_ = p.conn.Close()
		}
	}()
	value, err, there := p.await()
	p.leave()
	if !there || !p.answer(value, err) {
		_ = p.conn.Close()
		return
	}
	p.a.idleConns.idle(&returned{Conn: p.conn, connection: p.connection})
}

// await waits until there is an answer or the node has left.
func (p *parked) await() (value any, err error, there bool) {
	for {
		p.mu.Lock()
		woken, cause := p.woken, p.cause
		p.woken = false
		if !woken {
			_ = p.conn.SetReadDeadline(p.end)
		}
		p.mu.Unlock()
		if woken {
			ctx, done := context.WithTimeout(p.a.idleConns.looks, lookTime)
			reply, err := p.look(ctx, true)
			done()
			if reply != nil || err != nil || cause != nil {
				return reply, err, true
			}
			continue
		}
		var early [1]byte
		n, err := p.conn.Read(early[:])
		if timeout, ok := errors.AsType[net.Error](err); n > 0 || !ok || !timeout.Timeout() {
			return nil, nil, false // the node left, or sent a request before the answer
		}
		if !time.Now().Before(p.end) {
			return nil, nil, true
		}
	}
}

// look takes the work for the node; nil: none. A peer that would no longer be let in gets nothing.
func (p *parked) look(ctx context.Context, told bool) (any, error) {
	a := p.a
	if err := a.recheck(p.peer); err != nil {
		return nil, err
	}
	p.mu.Lock()
	cause := p.cause
	p.mu.Unlock()
	if errors.Is(cause, errStopping) {
		return nil, errStopping
	}
	reply, err := a.c.Queue.Look(ctx, queuePeer(p.peer), p.lanes, told)
	if err == nil {
		// If this check fails, the leased tasks are not handed over; their lease runs out.
		err = a.recheck(p.peer)
	}
	if err != nil || len(reply.Tasks)+len(reply.Cancel) == 0 {
		return nil, err
	}
	return &reply, nil
}

// answer writes an answer as the server would, and reports whether the connection can serve another
// request.
func (p *parked) answer(value any, err error) bool {
	w := &written{header: http.Header{}}
	if errors.Is(err, errStopping) {
		value, err, p.last = nil, nil, true
	}
	if p.last {
		w.header.Set("Connection", "close")
	}
	c := &call{w: w, r: &http.Request{Pattern: p.route, RemoteAddr: p.from}, peer: p.peer, node: p.node}
	p.a.answer(c, value, err)
	if p.a.c.Observe != nil {
		p.a.c.Observe(p.route, w.status, p.a.c.Now().Sub(p.arrivedAt))
	}
	_ = p.conn.SetWriteDeadline(time.Now().Add(bodies.Take))
	_, err = p.conn.Write(w.bytes(p.a.c.Now()))
	return err == nil && w.header.Get("Connection") != "close"
}

// written is the answer to a request whose connection the server has released.
type written struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *written) Header() http.Header { return w.header }

func (w *written) WriteHeader(status int) { w.status = status }

func (w *written) Write(b []byte) (int, error) { return w.body.Write(b) }

// bytes is the answer in HTTP/1.1 wire form.
func (w *written) bytes(now time.Time) []byte {
	var out bytes.Buffer
	out.WriteString("HTTP/1.1 " + strconv.Itoa(w.status) + " " + http.StatusText(w.status) + "\r\n")
	w.header.Set("Date", now.UTC().Format(http.TimeFormat))
	if w.status != http.StatusNoContent {
		w.header.Set("Content-Length", strconv.Itoa(w.body.Len()))
	}
	_ = w.header.Write(&out) // writes to memory
	out.WriteString("\r\n")
	out.Write(w.body.Bytes())
	return out.Bytes()
}
