package attach

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/escape"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// broker side of a test: what it is dialled with, and how it answers.
type side struct {
	*testing.T
	Config
	keyboard *io.PipeWriter
	out      *screenOf
	notes    *screenOf
	dials    chan *conn
	refuse   chan error // before the next dial succeeds
	closed   int
	looked   End
	ended    chan struct{}
	end      End
	err      error
	stop     context.CancelFunc
}

// screenOf is a terminal, which may stop to take anything.
type screenOf struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	hold chan struct{}
	err  error
}

func (s *screenOf) Write(b []byte) (int, error) {
	s.mu.Lock()
	hold, err := s.hold, s.err
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf.Write(b)
	return len(b), err
}

func (s *screenOf) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// conn is a connection by hand.
type conn struct {
	*testing.T
	to, from chan frame.Frame
	gone     chan struct{}
	once     sync.Once
	why      error
}

func (c *conn) Next() (frame.Frame, error) {
	select {
	case f := <-c.to:
		return f, nil
	case <-c.gone:
		return nil, errors.Join(io.EOF, c.why)
	}
}

func (c *conn) Send(f frame.Frame) error {
	select {
	case c.from <- f:
		return nil
	case <-c.gone:
		return io.ErrClosedPipe
	}
}

func (c *conn) Close() error { c.once.Do(func() { close(c.gone) }); return nil }

func (c *conn) send(frames ...frame.Frame) {
	c.Helper()
	for _, f := range frames {
		select {
		case c.to <- f:
		case <-c.gone:
			c.Fatalf("the operator has closed it, and is to be sent %+v", f)
		case <-time.After(time.Minute):
			c.Fatalf("the operator does not read %+v", f)
		}
	}
}

// next is the next frame but for sizes, acknowledgements and signs of life.
func (c *conn) next() frame.Frame {
	c.Helper()
	for {
		select {
		case f := <-c.from:
			switch f.(type) {
			case frame.Resize, frame.Ack, frame.Ping:
				continue
			}
			return f
		case <-c.gone:
			c.Fatal("the operator has closed it")
		case <-time.After(time.Minute):
			c.Fatal("nothing comes")
		}
	}
}

func (c *conn) data() string {
	c.Helper()
	f, ok := c.next().(frame.Data)
	if !ok {
		c.Fatalf("%+v", f)
	}
	return string(f.Bytes)
}

// until reads up to a frame of a type that will do.
func until[F frame.Frame](c *conn, will func(F) bool) F {
	c.Helper()
	for {
		select {
		case f := <-c.from:
			if got, ok := f.(F); ok && will(got) {
				return got
			}
		case <-c.gone:
			c.Fatal("the operator has closed it")
		case <-time.After(time.Minute):
			c.Fatal("it does not come")
		}
	}
}

func start(t *testing.T, with func(*side)) *side {
	keys, keyboard := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	s := &side{T: t, keyboard: keyboard, out: &screenOf{}, notes: &screenOf{}, dials: make(chan *conn), refuse: make(chan error, 100), ended: make(chan struct{}), stop: stop}
	s.Config = Config{
		ID: "ts-1", In: keys, Out: s.out, Err: s.notes, Keyboard: true, Screen: true, Filter: escape.Policy{Answers: true},
		Size: func() frame.Resize { return frame.Resize{Columns: 80, Rows: 24} }, Resized: make(chan os.Signal), Detach: 10 * time.Minute,
		Begin: func() error { return nil },
		Dial: func(ctx context.Context) (Conn, error) {
			select {
			case err := <-s.refuse:
				return nil, err
			default:
			}
			c := &conn{T: t, to: make(chan frame.Frame), from: make(chan frame.Frame), gone: make(chan struct{})}
			select {
			case s.dials <- c:
				return c, nil
			case <-ctx.Done():
				return nil, broker.Errorf(broker.Unavailable, "broker_unreachable", "no broker")
			}
		},
		Look:  func(context.Context) (End, error) { return s.looked, nil },
		Close: func(context.Context) error { s.closed++; return nil },
	}
	if with != nil {
		with(s)
	}
	go func() {
		defer close(s.ended)
		s.end, s.err = Run(ctx, s.Config)
	}()
	return s
}

// accept takes a connection, and its Hello.
func (s *side) accept() (*conn, frame.Hello) {
	s.Helper()
	select {
	case c := <-s.dials:
		h, ok := c.next().(frame.Hello)
		if !ok || h.SessionID != "ts-1" || h.Version != frame.Version || h.Token != "" {
			s.Fatalf("%+v", h)
		}
		return c, h
	case <-time.After(time.Hour):
		s.Fatal("nobody dials")
	}
	return nil, frame.Hello{}
}

// join accepts and says Welcome.
func (s *side) join() *conn {
	s.Helper()
	c, _ := s.accept()
	c.send(frame.Welcome{Version: frame.Version, Limit: 64 << 10})
	return c
}

func (s *side) keyed(text string) {
	s.Helper()
	if _, err := s.keyboard.Write([]byte(text)); err != nil {
		s.Fatal(err)
	}
}

// over waits until Run has returned.
func (s *side) over() End {
	s.Helper()
	select {
	case <-s.ended:
	case <-time.After(time.Hour):
		s.Fatal("it does not end")
	}
	s.keyboard.Close() //nolint:errcheck // for the goroutine that reads it
	return s.end
}

func status(n int32) *int32 { return &n }

const put = "\x1b[0m\x1b(B\x0f"

func TestASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		c := s.join()
		until(c, func(r frame.Resize) bool { return r.Columns == 80 && r.Rows == 24 })
		until(c, func(a frame.Ack) bool { return a == frame.Ack{Limit: window} })
		c.send(frame.Data{Bytes: []byte("$ \x1b]0;owned\a")})
		until(c, func(a frame.Ack) bool { return a == frame.Ack{Taken: 12, Limit: 12 + window} })
		s.keyed("exit 3\r")
		if got := c.data(); got != "exit 3\r" {
			t.Errorf("%q", got)
		}
		c.send(frame.Ack{Taken: 7, Limit: 100}, frame.Data{Offset: 12, Bytes: []byte("exit\r\n")}, frame.EOF{Offset: 18}, frame.Exit{Status: 3}, frame.Bye{Code: "terminal_exited", Status: status(3)})
		if e := s.over(); s.err != nil || e.Code != "terminal_exited" || e.Status == nil || *e.Status != 3 || e.Left || e.Asked {
			t.Errorf("%+v, %v", e, s.err)
		}
		if got := s.out.String(); got != "$ exit\r\n"+put {
			t.Errorf("%q", got)
		}
		if s.notes.String() != "" || s.closed != 0 {
			t.Errorf("%q", s.notes.String())
		}
	})
}

// Over a break nothing typed is lost, and nothing comes twice, in either direction.
func TestABreakLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		c := s.join()
		c.send(frame.Data{Bytes: []byte("one ")})
		s.keyed("abc")
		if c.data() != "abc" {
			t.Fatal("it is not sent")
		}
		s.keyed("def")
		if c.data() != "def" {
			t.Fatal("it is not sent")
		}
		c.send(frame.Ack{Taken: 2, Limit: 100})
		_ = c.Close()
		for range 5 {
			s.refuse <- broker.Errorf(broker.Unavailable, "broker_unreachable", "no broker")
		}
		s.keyed("ghi")
		c, h := s.accept()
		if h.Taken != 4 || h.From != 2 || h.Sent != 6 && h.Sent != 9 {
			t.Errorf("%+v", h)
		}
		// The relay has four of the bytes, and shows the last of the screen again. It is another
		// one, and allows less than the one before until it has heard the node.
		c.send(frame.Welcome{Version: frame.Version, Taken: 4, Limit: 5, From: 2}, frame.Data{Offset: 2, Bytes: []byte("e two")})
		if got := c.data(); got != "e" {
			t.Errorf("%q", got)
		}
		c.send(frame.Ack{Taken: 4, Limit: 100})
		if got := c.data(); got != "fghi" && got+c.data() != "fghi" {
			t.Errorf("%q", got)
		}
		c.send(frame.Bye{Code: "terminal_exited", Status: status(0)})
		s.over()
		if got := s.out.String(); got != "one two"+put {
			t.Errorf("%q", got)
		}
		if got := s.notes.String(); !strings.Contains(got, "\r\nhostler: the connection broke: trying again, for up to 10m0s") || !strings.Contains(got, "\r\nhostler: back, after ") {
			t.Errorf("%q", got)
		}
	})
}

func TestOutputThatIsLostIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		c := s.join()
		c.send(frame.Data{Bytes: []byte("one\x1b]0;")}, frame.Bye{Code: "output_lost", Lasts: true})
		c, _ = s.accept()
		c.send(frame.Welcome{Version: frame.Version, Limit: 1, From: 107}, frame.Data{Offset: 107, Bytes: []byte("two")}, frame.Bye{Code: "terminal_exited"})
		s.over()
		if got := s.out.String(); got != "onetwo"+put {
			t.Errorf("%q", got)
		}
		if got := s.notes.String(); !strings.Contains(got, "100 bytes of output are not shown (hostler recording play ts-1") {
			t.Errorf("%q", got)
		}
	})
}

// A terminal that takes nothing has the relay stop, and holds no key up; the escapes work.
func TestAStoppedTerminalFillsNoMemoryAndHoldsNoKeyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		s := start(t, func(s *side) { s.out.hold = hold })
		c := s.join()
		limit := until(c, func(a frame.Ack) bool { return true }).Limit
		chunk := bytes.Repeat([]byte("y\n"), frame.MaxData/2)
		sent := uint64(0)
		for ; sent+frame.MaxData <= limit; sent += frame.MaxData {
			c.send(frame.Data{Offset: sent, Bytes: chunk})
		}
		if sent > window {
			t.Errorf("%d bytes are allowed before any is written", sent)
		}
		s.keyed("\x03")
		if got := c.data(); got != "\x03" {
			t.Errorf("%q", got)
		}
		// No more is allowed while nothing is written.
		synctest.Wait()
		select {
		case f := <-c.from:
			if a, ok := f.(frame.Ack); ok && a.Limit > limit {
				t.Errorf("%+v", f)
			}
		default:
		}
		s.keyed("\r~.")
		if b, ok := c.next().(frame.Bye); !ok || b.Lasts {
			t.Errorf("%+v", b)
		}
		c.send(frame.Bye{Code: "terminal_operator_ended"})
		if e := s.over(); !e.Asked || e.Left || s.closed != 0 {
			t.Errorf("%+v, %d", e, s.closed)
		}
		close(hold)
	})
}

// What is typed and not taken is bounded; a program that takes nothing of it does not keep
// the escapes from being seen.
func TestAProgramThatReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		c, _ := s.accept()
		c.send(frame.Welcome{Version: frame.Version, Limit: 10})
		s.keyed(strings.Repeat("x", 4096))
		if got := c.data(); got != "xxxxxxxxxx" {
			t.Errorf("%q", got)
		}
		s.keyed("\r~d")
		if b, ok := c.next().(frame.Bye); !ok || !b.Lasts {
			t.Errorf("%+v", b)
		}
		c.send(frame.Bye{Code: "connection_lost", Lasts: true})
		if e := s.over(); !e.Left || s.closed != 0 {
			t.Errorf("%+v", e)
		}
	})
	synctest.Test(t, func(t *testing.T) { // and no keyboard is read on and on
		s := start(t, func(s *side) { s.Keyboard = false })
		c, _ := s.accept()
		c.send(frame.Welcome{Version: frame.Version, Limit: 10})
		read := 0
		go func() {
			for {
				n, err := s.keyboard.Write(make([]byte, 4096))
				if read += n; err != nil {
					return
				}
			}
		}()
		c.data()
		synctest.Wait()
		if read > maxTyped+3*4096 {
			t.Errorf("%d bytes are read that nobody takes", read)
		}
		s.stop()
		if b, ok := c.next().(frame.Bye); !ok || b.Lasts {
			t.Errorf("%+v", b)
		}
		c.send(frame.Bye{Code: "terminal_operator_ended"})
		s.over()
	})
}

func TestInputThatIsNoKeyboardHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(s *side) { s.Keyboard, s.Screen = false, false })
		c := s.join()
		s.keyed("~.\nabc")
		if got := c.data(); got != "~.\nabc" {
			t.Errorf("%q: escapes are for people", got)
		}
		s.keyboard.Close() //nolint:errcheck // as a pipe ends
		if f, ok := c.next().(frame.EOF); !ok || f.Offset != 6 {
			t.Errorf("%+v", f)
		}
		_ = c.Close() // and again after a break
		c, _ = s.accept()
		c.send(frame.Welcome{Version: frame.Version, Taken: 6, Limit: 100})
		if f, ok := c.next().(frame.EOF); !ok || f.Offset != 6 {
			t.Errorf("%+v", f)
		}
		c.send(frame.Data{Bytes: []byte("done\r\n")}, frame.Exit{Status: 143, Signal: "TERM"}, frame.Bye{Code: "terminal_exited", Status: status(143)})
		if e := s.over(); *e.Status != 143 || e.Signal != "TERM" || s.out.String() != "done\r\n" {
			t.Errorf("%+v %q", e, s.out.String())
		}
		if got := s.notes.String(); strings.Contains(got, "\r") {
			t.Errorf("%q", got)
		}
	})
}

func TestTheEscapesEndOrLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		c := s.join()
		s.keyed("~?")
		s.keyed("~~\r")
		if got := c.data(); got != "~\r" {
			t.Errorf("%q", got)
		}
		_ = c.Close()
		s.keyed("~.") // while there is no connection
		if e := s.over(); !e.Asked || s.closed != 1 {
			t.Errorf("%+v, closed %d times", e, s.closed)
		}
		if !strings.Contains(s.notes.String(), Help) {
			t.Errorf("%q", s.notes.String())
		}
	})
	synctest.Test(t, func(t *testing.T) { // a relay that does not answer
		s := start(t, nil)
		c := s.join()
		s.keyed("~.")
		if b, ok := c.next().(frame.Bye); !ok || b.Lasts {
			t.Errorf("%+v", b)
		}
		if e := s.over(); !e.Asked || s.closed != 1 {
			t.Errorf("%+v, closed %d times", e, s.closed)
		}
	})
}

func TestASilentConnectionIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		c := s.join()
		p := until(c, func(frame.Ping) bool { return true })
		c.send(frame.Pong(p))
		began := time.Now()
		until(c, func(frame.Ping) bool { return true }) // and this one is not answered
		<-c.gone
		if took := time.Since(began); took < silent-quiet || took > silent+time.Second {
			t.Errorf("it is broken after %s", took)
		}
		c = s.join()
		c.send(frame.Ping{Nonce: 7})
		if f := c.next(); f != (frame.Pong{Nonce: 7}) {
			t.Errorf("%+v", f)
		}
		c.send(frame.Bye{Code: "terminal_time_over", Text: "it lasted"})
		if e := s.over(); e.Code != "terminal_time_over" || e.Text != "it lasted" || e.Status != nil {
			t.Errorf("%+v", e)
		}
	})
}

// What helps is tried again, for as long as the session waits; what does not is said at once.
func TestTryingAgainHasAnEnd(t *testing.T) {
	away := broker.Errorf(broker.Unavailable, "broker_unreachable", "no broker")
	failed := broker.Errorf(broker.Internal, "internal", "the store is locked")
	for name, c := range map[string]struct {
		refused []error
		code    string
		after   time.Duration // at least
	}{
		"forbidden":    {[]error{broker.Errorf(broker.Forbidden, "role_too_low", "no")}, "role_too_low", 0},
		"too late":     {[]error{away, broker.Errorf(broker.Refused, "terminal_ticket_expired", "late"), broker.Errorf(broker.Forbidden, "role_too_low", "no")}, "role_too_low", 0},
		"then refused": {[]error{away, away, broker.Errorf(broker.Unauthorized, "token_revoked", "no")}, "token_revoked", 0},
		"it fails":     {[]error{failed, failed, broker.Errorf(broker.Forbidden, "role_too_low", "no")}, "role_too_low", 0},
		"never there":  {nil, "terminal_lost", 10 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, nil)
			conn := s.join()
			for _, err := range c.refused {
				s.refuse <- err
			}
			began := time.Now()
			_ = conn.Close()
			s.over()
			if took := time.Since(began); broker.AsError(s.err).Code != c.code || took < c.after || took > c.after+time.Minute {
				t.Errorf("%s: %v after %s", name, s.err, took)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // it ended meanwhile
		s := start(t, func(s *side) { s.looked = End{Code: "node_quarantined"} })
		conn := s.join()
		s.refuse <- broker.Errorf(broker.Refused, "terminal_session_over", "over")
		conn.send(frame.Exit{Status: 4})
		_ = conn.Close()
		if e := s.over(); s.err != nil || e.Code != "node_quarantined" || *e.Status != 4 {
			t.Errorf("%+v, %v", e, s.err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // nothing is lost where it has not begun
		s := start(t, func(s *side) { s.refuse <- failed })
		s.over()
		if s.err != error(failed) {
			t.Errorf("%v", s.err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // it never began
		s := start(t, nil)
		began := time.Now()
		s.over()
		if took := time.Since(began); broker.AsError(s.err).Code != "terminal_lost" || took > 2*firstWithin {
			t.Errorf("%v after %s", s.err, took)
		}
	})
}

func TestWhereTheNodeIsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		c := s.join()
		for _, f := range []frame.State{
			{Node: frame.NodeHere, Transport: frame.OverQUIC}, {Node: frame.NodeAway}, {Node: frame.NodeHere, Transport: frame.OverTCP}, {Node: frame.NodeHere, Transport: frame.OverTCP},
		} {
			c.send(f)
		}
		c.send(frame.Bye{Code: "terminal_exited"})
		s.over()
		var lines []string
		for _, l := range strings.Split(s.notes.String(), "\r\n") {
			if l != "" {
				lines = append(lines, l)
			}
		}
		if len(lines) != 3 || !strings.Contains(lines[0], "away") || !strings.Contains(lines[1], "back") || !strings.Contains(lines[2], "TCP") {
			t.Errorf("%q", lines)
		}
	})
}

func TestASessionThatIsTakenElsewhereIsLeft(t *testing.T) {
	for _, code := range []taskcatalog.Code{codeReplaced, codeMoved} {
		for _, lasts := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, nil)
				s.join().send(frame.Bye{Code: code, Lasts: lasts})
				s.over()
				if broker.AsError(s.err).Code != string(code) || s.closed != 0 {
					t.Errorf("%v", s.err)
				}
			})
		}
	}
	synctest.Test(t, func(t *testing.T) { // and comes back with what another has typed
		s := start(t, nil)
		c := s.join()
		s.keyed("ab")
		c.data()
		_ = c.Close()
		s.keyed("cd")
		c, _ = s.accept()
		c.send(frame.Welcome{Version: frame.Version, Taken: 50, Limit: 100})
		synctest.Wait()
		s.keyed("ef")
		if f, ok := c.next().(frame.Data); !ok || f.Offset != 50 || string(f.Bytes) != "ef" {
			t.Errorf("%+v", f)
		}
		c.send(frame.Bye{Code: "terminal_exited"})
		s.over()
		if !strings.Contains(s.notes.String(), "somebody else") {
			t.Errorf("%q", s.notes.String())
		}
	})
}

// A relay that does not keep to the protocol is not listened to any further.
func TestWhatDoesNotFitEndsIt(t *testing.T) {
	for name, c := range map[string]struct {
		frames []frame.Frame
		code   taskcatalog.Code
	}{
		"output that leaves bytes out":       {[]frame.Frame{frame.Data{Offset: 5, Bytes: []byte("x")}}, frame.CodeGap},
		"output beyond what is allowed":      {[]frame.Frame{frame.Data{Bytes: bytes.Repeat([]byte("x"), frame.MaxData)}, frame.Data{Offset: frame.MaxData, Bytes: make([]byte, window+1)}}, frame.CodeBeyondLimit},
		"an ack of what was not typed":       {[]frame.Frame{frame.Ack{Taken: 5, Limit: 9}}, frame.CodeAckUnsent},
		"two Welcomes":                       {[]frame.Frame{frame.Welcome{Version: frame.Version}}, "frame_unexpected"},
		"a Hello":                            {[]frame.Frame{frame.Hello{}}, "frame_unexpected"},
		"an end before what was said":        {[]frame.Frame{frame.Data{Bytes: []byte("abc")}, frame.EOF{Offset: 1}}, frame.CodeAfterEnd},
		"a signal, which goes the other way": {[]frame.Frame{frame.Signal{Name: "INT"}}, "frame_unexpected"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, nil)
			conn := s.join()
			until(conn, func(frame.Ack) bool { return true })
			conn.send(c.frames...)
			s.over()
			if broker.AsError(s.err).Code != string(c.code) {
				t.Errorf("%s: %v", name, s.err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		conn, _ := s.accept()
		conn.send(frame.Data{Bytes: []byte("x")})
		s.over()
		if broker.AsError(s.err).Code != "frame_unexpected" || s.out.String() != put {
			t.Errorf("before the Welcome: %v", s.err)
		}
	})
}

func TestOutputThatNobodyTakesEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(s *side) { s.out.err = io.ErrClosedPipe })
		c := s.join()
		c.send(frame.Data{Bytes: []byte("x")})
		s.over()
		if broker.AsError(s.err).Code != "output_failed" || s.closed != 1 {
			t.Errorf("%v, closed %d times", s.err, s.closed)
		}
	})
}

func TestASignalLeavesOrEnds(t *testing.T) {
	for _, keyboard := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, func(s *side) { s.Keyboard = keyboard })
			c := s.join()
			until(c, func(frame.Ack) bool { return true })
			s.stop()
			if b, ok := c.next().(frame.Bye); !ok || b.Lasts != keyboard {
				t.Errorf("%v: %+v", keyboard, b)
			}
			_ = c.Close()
			if e := s.over(); !e.Asked || e.Left != keyboard {
				t.Errorf("%v: %+v", keyboard, e)
			}
		})
	}
}

// A broker that lets in and breaks off, again and again, is not asked without a pause; and
// what never comes to a Welcome has an end.
func TestAConnectionThatBreaksAgainAndAgainIsGivenTime(t *testing.T) {
	for name, c := range map[string]struct {
		welcome bool
		most    int
	}{"after the Welcome": {true, 40}, "before it": {false, 150}} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, nil)
			conn := s.join()
			began, dials := time.Now(), 0
			if !c.welcome {
				_ = conn.Close()
			}
			for ; time.Since(began) < 2*time.Minute; dials++ {
				if c.welcome {
					_ = conn.Close()
					conn = s.join()
					continue
				}
				conn, _ = s.accept()
				_ = conn.Close()
			}
			if dials > c.most || dials < 20 {
				t.Errorf("%s: it is dialled %d times in 2 minutes", name, dials)
			}
			if c.welcome {
				conn.send(frame.Bye{Code: "terminal_exited"})
			} else {
				go func() {
					for {
						select {
						case conn := <-s.dials:
							<-conn.from
							_ = conn.Close()
						case <-s.ended:
							return
						}
					}
				}()
			}
			s.over()
			if !c.welcome && (broker.AsError(s.err).Code != "terminal_lost" || time.Since(began) > 11*time.Minute) {
				t.Errorf("%v after %s", s.err, time.Since(began))
			}
		})
	}
}
