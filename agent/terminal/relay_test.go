package terminal

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// relay is the other side: each dialed connection comes out of calls.
type relay struct {
	calls     chan *peer
	datagrams bool // its connections have datagrams
	mu        sync.Mutex
	down      func() error
	passes    chan Pass // to the session
}

func newRelay() *relay { return &relay{calls: make(chan *peer), passes: make(chan Pass)} }

// peer is the relay's end of a connection. It reads and writes only when the test says so.
type peer struct {
	io.ReadWriteCloser
	reader   *frame.Reader
	from, to chan []byte // datagrams
	relay    string      // the dialed address
}

// pipe is a Conn of a net.Pipe.
type pipe struct{ net.Conn }

func (p pipe) CloseWrite() error { return p.Close() }

// early is a pipe with datagrams.
type early struct {
	pipe
	from, to chan []byte
	rtt      time.Duration
}

func (e early) RTT() time.Duration { return e.rtt }

func (e early) SendDatagram(raw []byte) error {
	e.to <- append([]byte(nil), raw...)
	return nil
}

func (e early) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	select {
	case raw := <-e.from:
		return raw, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *relay) dial(ctx context.Context, to string) (Conn, error) {
	r.mu.Lock()
	down := r.down
	r.mu.Unlock()
	if down != nil {
		if err := down(); err != nil {
			return nil, err
		}
	}
	here, there := net.Pipe()
	p := &peer{ReadWriteCloser: there, reader: frame.NewReader(there), from: make(chan []byte, 1000), to: make(chan []byte), relay: to}
	select {
	case r.calls <- p:
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), here.Close())
	}
	if r.datagrams {
		return early{pipe{here}, p.to, p.from, 80 * time.Millisecond}, nil
	}
	return pipe{here}, nil
}

// goDown makes each dial fail with the error of down; nil: the relay is up.
func (r *relay) goDown(down func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
}

// welcome takes a connection up to its Welcome.
func (r *relay) welcome(t *testing.T, w frame.Welcome) (*peer, frame.Hello) {
	t.Helper()
	p := <-r.calls
	hello, isHello := p.next(t).(frame.Hello)
	if !isHello {
		t.Fatal("a connection begins without a Hello")
	}
	w.Version = frame.Version
	p.send(t, w)
	return p, hello
}

func (p *peer) send(t *testing.T, frames ...frame.Frame) {
	t.Helper()
	for _, f := range frames {
		raw, err := frame.Append(nil, f)
		if err == nil {
			_, err = p.Write(raw)
		}
		ok(t, err)
	}
}

func (p *peer) next(t *testing.T) frame.Frame {
	t.Helper()
	f, err := p.reader.Next()
	ok(t, err)
	return f
}

// await reads until a frame of a kind comes.
func await[T frame.Frame](t *testing.T, p *peer) T {
	t.Helper()
	for {
		if f, is := p.next(t).(T); is {
			return f
		}
	}
}

// until reads output, with room for all of it, until text has come.
func (p *peer) until(t *testing.T, in *frame.Inflow, text string) string {
	t.Helper()
	var all []byte
	for !contains(all, text) {
		switch f := p.next(t).(type) {
		case frame.Data:
			fresh, err := in.Take(f)
			ok(t, err)
			all = append(all, fresh...)
			p.send(t, in.Allow(window))
		case frame.EOF, frame.Exit, frame.Bye:
			t.Fatalf("%+v comes before %q: %q", f, text, all)
		}
	}
	return string(all)
}

const window = 32 << 10

// played is a program simulated by the test.
type played struct {
	said    chan []byte
	rest    []byte
	mu      sync.Mutex
	heard   []byte
	sizes   []frame.Resize
	hungUp  bool
	ended   chan struct{}
	endOnce sync.Once
	status  int32
	stuck   chan struct{} // takes no input until this is closed
}

func newPlayed() *played {
	p := &played{said: make(chan []byte), ended: make(chan struct{}), stuck: make(chan struct{})}
	close(p.stuck)
	return p
}

func (p *played) exit(status int32) {
	p.endOnce.Do(func() { p.status = status; close(p.ended) })
}

func (p *played) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		select {
		case p.rest = <-p.said:
		case <-p.ended:
			return 0, io.EOF
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *played) Write(b []byte) (int, error) {
	select {
	case <-p.stuck:
	case <-p.ended:
		return 0, io.ErrClosedPipe
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, b...)
	return len(b), nil
}

func (p *played) EndInput(times int) error {
	_, err := p.Write(make([]byte, times))
	return err
}

func (p *played) Resize(r frame.Resize) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sizes = append(p.sizes, r)
	return nil
}

func (p *played) Signal(string) error { return nil }

func (p *played) Wait() frame.Exit {
	<-p.ended
	return frame.Exit{Status: p.status}
}

func (p *played) HangUp(time.Duration) {
	select {
	case <-p.ended:
	default:
		p.mu.Lock()
		p.hungUp = true
		p.mu.Unlock()
		p.exit(129)
	}
}

func (p *played) isHungUp() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hungUp
}

func (p *played) Close() error { return nil }

func (p *played) input() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.heard)
}

// running is a running session.
type running struct {
	res  chan Result
	err  error
	stop context.CancelFunc
	over chan struct{}
}

func (r *running) end(t *testing.T, code taskcatalog.Code) Result {
	t.Helper()
	res := <-r.res
	if got := taskcatalog.CodeOf(r.err, ""); got != code || r.err != nil && code == "" || res.Code != code {
		t.Errorf("the session ended with %q (%v), want %q", res.Code, r.err, code)
	}
	return res
}

func begin(s *session) *running {
	ctx, stop := context.WithCancel(context.Background())
	r := &running{res: make(chan Result, 1), stop: stop, over: make(chan struct{})}
	go func() {
		defer stop()
		defer close(r.over)
		var res Result
		res, r.err = s.run(ctx)
		r.res <- res
	}()
	return r
}

// plays begins a session with a program played by the test.
func plays(r *relay) (*running, *played) {
	p := newPlayed()
	o := Options{SessionID: "s-1", Pass: Pass{Relay: "one:1", Token: "first"}, Passes: r.passes, Dial: r.dial, User: "alice", ConnectTimeout: time.Minute, DetachTimeout: 2 * time.Minute, Grace: time.Second}
	return begin(newSession(o, func() (program, error) { return p, nil })), p
}
