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
	window       = 256 << 10        // of output that is not written
	few          = 4 << 10          // bytes of output, such as the answer to a key
	maxTyped     = 64 << 10         // that is not in a frame yet
	tick         = time.Second / 10 // how often time is looked at
	quiet        = 5 * time.Second  // after which the relay is asked whether it is there
	silent       = 15 * time.Second // after which it is not
	joinWithin   = 20 * time.Second // one try
	firstWithin  = time.Minute      // all tries, where none has succeeded yet
	steady       = 10 * time.Second // after which a connection is one that lasts
	leaveWithin  = 3 * time.Second
	closeWithin  = 5 * time.Second
	firstBackoff = 250 * time.Millisecond
	mostBackoff  = 5 * time.Second
)

// Config is a session, and the surroundings of whoever has it.
type Config struct {
	ID       string
	In       io.Reader
	Out, Err io.Writer
	// Keyboard: In is a terminal. So escapes are looked for, and its end is not that of the
	// input but of whoever typed.
	Keyboard bool
	Screen   bool // Out is a terminal, which is put right at the end
	Quiet    bool // no notes
	// New: nobody was in the session before, so that all of its output is due.
	New     bool
	Filter  escape.Policy
	Size    func() frame.Resize
	Resized <-chan os.Signal
	Detach  time.Duration // how long the session waits for its operator; 0: for ever
	// Begin is called when the node is there, before anything is read of In.
	Begin func() error
	// Dial connects. What is Unavailable or TooMany is tried again, and
	// what is Internal once a session has begun.
	Dial func(ctx context.Context) (Conn, error)
	// Look asks how a session that is over has ended, and Close ends it, where no connection
	// says so.
	Look  func(ctx context.Context) (End, error)
	Close func(ctx context.Context) error
}

// End is how the operator's side ended.
type End struct {
	Code   string
	Text   string // of the relay
	Status *int   // of the program; nil: it has not ended, or nobody knows
	Signal string // that ended it
	// Asked: by an escape, or by an interruption. Left: the session goes on.
	Asked, Left bool
	Lost        uint64 // bytes of output that did not come here
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
	began   bool      // there was a Welcome
	heard   time.Time
	state   frame.State

	stdin  chan []byte
	keys   keys
	typed  []byte
	eof    bool // nothing more is typed
	in     *frame.Inflow
	out    *frame.Outflow
	sent   uint64 // on this link
	told   frame.Ack
	resize bool
	exit   *frame.Exit
	lost   uint64

	leaving byte // the escape
	leaveBy time.Time
	byeSent bool
}

type dialed struct {
	conn Conn
	err  error
}

// Run is a session, until it ends or its operator leaves it. An error says why there is
// none, or none any more, that is known of.
func Run(ctx context.Context, c Config) (End, error) {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o := &operator{
		Config: &c, ctx: inner, screen: newScreen(&c), dialed: make(chan dialed, 1), stdin: make(chan []byte),
		keys: keys{first: true}, away: time.Now(),
	}
	go o.screen.run() // which a terminal may hold up for ever
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
				o.broke(o.link.err)
			}
		case toScreen <- p:
			o.screen.taken()
		case w := <-o.screen.written:
			if o.screen.wrote(w); w.err != nil && !o.over() {
				o.fail(broker.Errorf(broker.Internal, "output_failed", "cannot write the output of session %s: %v (it is ended)", o.ID, w.err))
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

// shown: all that came is written, or there is no waiting for that.
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

// look is all that time does.
func (o *operator) look(now time.Time) {
	if o.link != nil {
		o.link.late = true
	}
	switch {
	case o.over():
	case o.leaving != 0 && now.After(o.leaveBy):
		o.left()
	case o.link != nil && now.Sub(o.heard) > silent:
		o.broke(nil)
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

// joined takes the outcome of a try.
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

// refused tries again where that may help.
func (o *operator) refused(err error) {
	e := broker.AsError(err)
	switch {
	case e.Code == "terminal_session_over" || e.Code == "terminal_session_not_found" && o.began:
		if end, gone := o.Look(o.ctx); gone == nil {
			o.finish(end)
			return
		}
		o.fail(err)
	case !o.mayHelp(e):
		o.fail(err)
	case o.patience() > 0 && time.Since(o.away) > o.patience():
		o.fail(broker.Errorf(broker.Unavailable, "terminal_lost", "session %s is out of reach: %s (hostler terminal show %s says what became of it)", o.ID, e.Message, o.ID))
	default:
		o.retryAt = time.Now().Add(o.backoff())
	}
}

// mayHelp reports whether what was refused may be taken later. A session that has begun is
// not given up for a fault of a moment: a broker that fails now and then has others.
func (o *operator) mayHelp(e *broker.Error) bool {
	return e.Kind == broker.Unavailable || e.Kind == broker.TooMany || e.Kind == broker.Internal && o.began || e.Code == "terminal_ticket_expired"
}

// patience is how long a connection is tried to be made; 0: for ever.
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

// broke is the end of a connection that was none of the session. Where nothing more comes of
// it, err says why.
func (o *operator) broke(err error) {
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
		o.brokeOff(l)
	}
}

var errBroke = broker.Errorf(broker.Unavailable, "connection_broken", "the connection breaks before the session is joined")

// brokeOff is when a session was joined. The first try is at once, unless it was that already
// and did not last.
func (o *operator) brokeOff(l *link) {
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
	o.note("the connection broke: trying again, %s (what is typed is kept; ~. ends the session, ~d leaves it)", until)
}

// interrupted is by a signal. Whoever has a keyboard may come back; a program may not.
func (o *operator) interrupted() {
	if o.over() { // and what came is being written
		o.leaveBy = time.Now()
	}
	if o.Keyboard && o.began {
		o.leave('d')
	} else {
		o.leave('.')
	}
}

// leave ends the session, or this side of it.
func (o *operator) leave(how byte) {
	if o.leaving != 0 || o.over() {
		return
	}
	o.leaving, o.leaveBy = how, time.Now().Add(leaveWithin)
	if o.link == nil {
		o.left()
	}
}

// left is when nothing more is to be waited for.
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
		o.fail(broker.Errorf(broker.AsError(err).Kind, broker.AsError(err).Code, "cannot end session %s: %s (hostler terminal close %s)", o.ID, broker.AsError(err).Message, o.ID))
	}
}
