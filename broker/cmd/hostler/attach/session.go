package attach

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/escape"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

const (
	window       = 256 << 10        // unwritten output
	few          = 4 << 10          // bytes of output, such as the answer to a key
	maxTyped     = 64 << 10         // typed bytes that are not in a frame yet
	tick         = time.Second / 10 // how often timeouts are checked
	quiet        = 5 * time.Second  // silence after which the relay is pinged
	silent       = 15 * time.Second // silence after which the relay counts as gone
	joinWithin   = 20 * time.Second // one attempt
	firstWithin  = time.Minute      // all attempts before the first success
	steady       = 10 * time.Second // a connection that lasts longer resets the backoff
	leaveWithin  = 3 * time.Second
	closeWithin  = 5 * time.Second
	firstBackoff = 250 * time.Millisecond
	mostBackoff  = 5 * time.Second
)

// Config describes a session and the client's surroundings.
type Config struct {
	ID       string
	In       io.Reader
	Out, Err io.Writer
	// Keyboard says that In is a terminal. Then escapes are recognised, and the end of In means
	// that the operator is gone, not that the input ends.
	Keyboard bool
	Screen   bool // Out is a terminal, which is restored at the end
	Quiet    bool // no notes
	// New says that nobody was in the session before, so that all of its output is due.
	New     bool
	Filter  escape.Policy
	Size    func() frame.Resize
	Resized <-chan os.Signal
	Detach  time.Duration // how long the session waits for its operator; 0: forever
	// Begin is called when the node has joined, before anything is read from In.
	Begin func() error
	// Dial connects. Errors of kind Unavailable or TooMany are retried, and once a session has
	// begun also Internal.
	Dial func(ctx context.Context) (Conn, error)
	// Look asks how a finished session ended, and Close ends the session; both are for use without
	// a connection.
	Look  func(ctx context.Context) (End, error)
	Close func(ctx context.Context) error
}

// End describes how the operator's side ended.
type End struct {
	Code   string
	Text   string // from the relay
	Status *int   // of the program; nil: not ended, or unknown
	Signal string // the signal that ended the program
	// Asked: by an escape or an interrupt. Left: the session goes on.
	Asked, Left bool
	Lost        uint64 // bytes of output that did not arrive here
}

// operator is Run's state.
type operator struct {
	*Config
	ctx    context.Context
	group  sync.WaitGroup
	screen *screen
	end    *End
	err    error

	link    *link
	dialed  chan dialed
	dialing bool
	retryAt time.Time
	tries   int
	away    time.Time // since when there is no connection
	began   bool      // a Welcome has arrived
	heard   time.Time
	state   frame.State

	stdin   chan []byte
	keys    keys
	typed   []byte
	eof     bool // the input has ended
	in      *frame.Inflow
	out     *frame.Outflow
	sent    uint64 // on this link
	lastAck frame.Ack
	resize  bool
	exit    *frame.Exit
	lost    uint64

	leaving byte // the escape
	leaveBy time.Time
	byeSent bool
}

type dialed struct {
	conn Conn
	err  error
}

// Run runs a session until the session ends or its operator leaves. An error says why there is no
// session, or why its state is no longer known.
func Run(ctx context.Context, c Config) (End, error) {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o := &operator{
		Config: &c, ctx: inner, screen: newScreen(&c), dialed: make(chan dialed, 1), stdin: make(chan []byte),
		keys: keys{first: true}, away: time.Now(),
	}
	go o.screen.run() // a terminal may block this goroutine forever
	defer func() {
		cancel()
		o.link.close()
		o.group.Wait()
		close(o.screen.to)
	}()
	o.loop(ctx.Done())
	if o.Screen && !o.screen.busy {
		_, _ = o.Out.Write(o.screen.filter.Restore(nil))
	}
	if o.err != nil {
		return End{}, o.err
	}
	return *o.end, nil
}

func (o *operator) over() bool { return o.end != nil || o.err != nil }

func (o *operator) loop(interrupted <-chan struct{}) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	o.dial()
	for !o.over() || !o.shown() {
		toConn, f := o.link.offer(o.next)
		toScreen, p := o.screen.offer()
		select {
		case <-interrupted:
			interrupted = nil
			o.interrupted()
		case d := <-o.dialed:
			o.joined(d)
		case toConn <- f:
			o.link.pending = nil
		case f, more := <-o.link.frames():
			if more {
				o.take(f)
			} else {
				o.handleBreak(o.link.err)
			}
		case toScreen <- p:
			o.screen.taken()
		case w := <-o.screen.written:
			if o.screen.wrote(w); w.err != nil && !o.over() {
				o.fail(broker.Errorf(broker.Internal, "output_failed", "cannot write the output of session %s: %v (it is ended)", o.ID,
					w.err))
				o.closeSession()
			}
		case b, more := <-o.input():
			if more {
				o.keyed(b)
			} else {
				o.inputEnded()
			}
		case <-o.Resized:
			o.resize = true
		case <-ticker.C:
			o.look(time.Now())
		}
	}
}

// shown reports that all output is written, or that the time for it is over.
func (o *operator) shown() bool {
	return o.screen.idle() || !o.leaveBy.IsZero() && time.Now().After(o.leaveBy)
}

func (o *operator) fail(err error) {
	if !o.over() {
		o.err, o.leaveBy = err, time.Now().Add(leaveWithin)
	}
}

func (o *operator) finish(e End) {
	if o.over() {
		return
	}
	if o.exit != nil && e.Status == nil {
		status := int(o.exit.Status)
		e.Status = &status
	}
	if o.exit != nil {
		e.Signal = o.exit.Signal
	}
	e.Lost = o.lost
	o.end = &e
}

func (o *operator) note(format string, args ...any) {
	if !o.Quiet {
		o.screen.note(format, args...)
	}
}

// look handles everything that depends on time.
func (o *operator) look(now time.Time) {
	if o.link != nil {
		o.link.late = true
	}
	switch {
	case o.over():
	case o.leaving != 0 && now.After(o.leaveBy):
		o.left()
	case o.link != nil && now.Sub(o.heard) > silent:
		o.handleBreak(nil)
	case o.link != nil && now.Sub(o.heard) > quiet && !o.link.pinged:
		o.link.pinged = true
		o.link.first = append(o.link.first, frame.Ping{Nonce: uint64(now.UnixNano())})
	case o.link == nil && !o.dialing && o.leaving == 0 && !now.Before(o.retryAt):
		o.dial()
	}
}

func (o *operator) dial() {
	o.dialing = true
	o.group.Go(func() {
		ctx, cancel := context.WithTimeout(o.ctx, joinWithin)
		defer cancel()
		conn, err := o.Dial(ctx)
		o.dialed <- dialed{conn, err}
	})
}

// joined handles the result of an attempt to connect.
func (o *operator) joined(d dialed) {
	o.dialing = false
	switch {
	case d.err == nil && (o.over() || o.leaving != 0):
		_ = d.conn.Close()
	case d.err == nil:
		h := frame.Hello{Version: frame.Version, SessionID: o.ID}
		if o.began {
			h.Taken, h.From, h.Sent = o.in.Taken(), o.out.From(), o.out.Sent()
		}
		o.link, o.heard, o.resize = newLink(&o.group, d.conn, h), time.Now(), true
	case o.over() || o.leaving != 0:
	default:
		o.refused(d.err)
	}
}

// refused retries if a retry may help.
func (o *operator) refused(err error) {
	e := broker.AsError(err)
	switch {
	case e.Code == "terminal_session_over" || e.Code == "terminal_session_not_found" && o.began:
		if end, gone := o.Look(o.ctx); gone == nil {
			o.finish(end)
			return
		}
		o.fail(err)
	case !o.retryable(e):
		o.fail(err)
	case o.patience() > 0 && time.Since(o.away) > o.patience():
		o.fail(broker.Errorf(broker.Unavailable, "terminal_lost",
			"session %s cannot be reached: %s (hostler terminal show %s shows its state)", o.ID, e.Message, o.ID))
	default:
		o.retryAt = time.Now().Add(o.backoff())
	}
}

// retryable reports whether a refused request may succeed later. A session that has begun survives
// a temporary fault, because a broker that fails now and then may have working replicas.
func (o *operator) retryable(e *broker.Error) bool {
	return e.Kind == broker.Unavailable || e.Kind == broker.TooMany || e.Kind == broker.Internal && o.began ||
		e.Code == "terminal_ticket_expired"
}

// patience is how long to keep trying to connect; 0: forever.
func (o *operator) patience() time.Duration {
	if !o.began {
		return firstWithin
	}
	return o.Detach
}

func (o *operator) backoff() time.Duration {
	d := min(firstBackoff<<min(o.tries, 10), mostBackoff)
	o.tries++
	return d - time.Duration(rand.Int64N(int64(d)/4))
}

// handleBreak handles a broken connection. An err with a code ends the session and gives the
// reason.
func (o *operator) handleBreak(err error) {
	l := o.link
	l.close()
	o.link = nil
	switch {
	case o.over():
	case codeOf(err) != "":
		o.protocol(err)
	case o.leaving != 0:
		o.left()
	case !l.welcome:
		o.refused(errBroke)
	default:
		o.handleJoinedBreak(l)
	}
}

var errBroke = broker.Errorf(broker.Unavailable, "connection_broken", "the connection breaks before the session is joined")

// handleJoinedBreak handles a break of a joined session. The first retry is immediate, unless the
// broken connection was such a retry and did not last.
func (o *operator) handleJoinedBreak(l *link) {
	o.away, o.retryAt = time.Now(), time.Now()
	if o.away.Sub(l.since) > steady {
		o.tries = 0
	}
	if o.tries > 0 {
		o.retryAt = o.away.Add(o.backoff())
	}
	o.tries++
	until := "for as long as it takes"
	if o.Detach > 0 {
		until = "for up to " + o.Detach.String()
	}
	o.note("the connection broke: trying again, %s (typed input is kept; ~. ends the session, ~d detaches)", until)
}

// interrupted handles a signal. An operator with a keyboard may come back; a program may not.
func (o *operator) interrupted() {
	if o.over() { // the remaining output is being written
		o.leaveBy = time.Now()
	}
	if o.Keyboard && o.began {
		o.leave('d')
	} else {
		o.leave('.')
	}
}

// leave ends the session (.) or only this side of it (d).
func (o *operator) leave(how byte) {
	if o.leaving != 0 || o.over() {
		return
	}
	o.leaving, o.leaveBy = how, time.Now().Add(leaveWithin)
	if o.link == nil {
		o.left()
	}
}

// left finishes when there is nothing more to wait for.
func (o *operator) left() {
	if o.leaving == '.' {
		o.closeSession()
	}
	o.finish(End{Asked: true, Left: o.leaving == 'd'})
}

// closeSession ends a session without a connection to it.
func (o *operator) closeSession() {
	ctx, cancel := context.WithTimeout(o.ctx, closeWithin)
	defer cancel()
	if err := o.Close(ctx); err != nil {
		o.fail(broker.Errorf(broker.AsError(err).Kind, broker.AsError(err).Code, "cannot end session %s: %s (hostler terminal close %s)",
			o.ID, broker.AsError(err).Message, o.ID))
	}
}
