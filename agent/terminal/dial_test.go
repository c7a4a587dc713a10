package terminal

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// front is a relay's real listeners on loopback, TCP and UDP on the same port. Accepted connections
// come out of calls.
type front struct {
	address string
	calls   chan Conn
	client  *tls.Config
	roots   *pkitest.Authority
}

// answering selects what a front serves.
type answering struct {
	quic, tcp bool
	alpn      string
}

func newFront(t *testing.T, a answering) *front {
	t.Helper()
	authority := pkitest.New(t)
	node := authority.NewNode(t)
	f := &front{
		calls: make(chan Conn, 4), roots: authority,
		client: pki.ClientConfig(authority.Roots(), &node.Cert, time.Now),
	}
	get := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &authority.Server, nil }
	config := pki.ServerConfig(get, authority.Roots(), func(cs tls.ConnectionState) error {
		_, err := pki.VerifyNodePeer(cs, authority.Roots(), time.Now(), func(string) bool { return false })
		return err
	})
	config.NextProtos = []string{a.alpn}
	if a.alpn == "" {
		config.NextProtos = nil
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	f.address = tcp.Addr().String()
	udp, err := net.ListenPacket("udp", f.address)
	ok(t, err)
	var all sync.WaitGroup
	if a.tcp {
		all.Go(func() { f.acceptTCP(tls.NewListener(tcp, config)) })
	} else {
		ok(t, tcp.Close())
	}
	transport := &quic.Transport{Conn: udp}
	if a.quic {
		listener, err := transport.Listen(config, &quic.Config{EnableDatagrams: true})
		ok(t, err)
		all.Go(func() { f.acceptQUIC(listener) })
	}
	t.Cleanup(func() {
		tcp.Close()
		transport.Close()
		udp.Close()
		all.Wait()
	})
	return f
}

func (f *front) acceptTCP(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		c := conn.(*tls.Conn)
		if c.Handshake() != nil {
			c.Close()
			continue
		}
		f.calls <- c
	}
}

func (f *front) acceptQUIC(l *quic.Listener) {
	for {
		conn, err := l.Accept(context.Background())
		if err != nil {
			return
		}
		if stream, err := conn.AcceptStream(context.Background()); err == nil {
			f.calls <- &quicConn{Stream: stream, conn: conn}
		}
	}
}

// accept takes a call and acts as the peer.
func (f *front) accept(t *testing.T, w frame.Welcome) (*peer, Conn) {
	t.Helper()
	conn := <-f.calls
	p := &peer{ReadWriteCloser: conn, reader: frame.NewReader(conn)}
	if _, is := p.next(t).(frame.Hello); !is {
		t.Fatal("a connection begins without a Hello")
	}
	w.Version = frame.Version
	p.send(t, w)
	return p, conn
}

func TestAWholeSessionPassesOverQUICAndOverTCP(t *testing.T) {
	for name, a := range map[string]answering{
		"QUIC": {quic: true, alpn: ALPN}, "TCP": {tcp: true, alpn: ALPN}, "both": {quic: true, tcp: true, alpn: ALPN},
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			f := newFront(t, a)
			root, self := box(t)
			run := runsAt(t, f, Options{Root: root, Command: []string{self, "be", "cat"}})
			p, conn := f.accept(t, frame.Welcome{Limit: window, Repeats: true})
			if _, is := conn.(*quicConn); is != a.quic {
				t.Errorf("it came by %T", conn)
			}
			in := hears(window)
			p.send(t, frame.Data{Bytes: []byte("one\n")})
			p.until(t, in, "<one>")
			conn.Close() // a break
			p, _ = f.accept(t, frame.Welcome{Taken: in.Taken(), Limit: in.Allow(window).Limit})
			p.send(t, frame.Data{Offset: 4, Bytes: []byte("two\n")}, frame.EOF{Offset: 8})
			p.until(t, in, "<two>")
			if exit := await[frame.Exit](t, p); exit.Status != 0 {
				t.Errorf("the end is %+v", exit)
			}
			p.send(t, frame.Bye{})
			run.end(t, "")
			p.Close()
		})
	}
}

// runsAt begins a real session that dials a front.
func runsAt(t *testing.T, f *front, o Options) *running {
	t.Helper()
	o.SessionID, o.User, o.AllowRoot = "s-1", "alice", true
	o.Dial = func(ctx context.Context, _ string) (Conn, error) { return Dial(ctx, f.address, f.client) }
	o.ConnectTimeout, o.DetachTimeout, o.Grace = time.Minute, time.Minute, 100*time.Millisecond
	ctx, stop := context.WithCancel(context.Background())
	run := &running{res: make(chan Result, 1), stop: stop, over: make(chan struct{})}
	go func() {
		defer close(run.over)
		var res Result
		res, run.err = Run(ctx, o)
		run.res <- res
	}()
	t.Cleanup(func() { stop(); <-run.over })
	return run
}

// The Bye of a failing side arrives, even if the other side sends on and reads late.
func TestALastWordPassesARelayThatFloods(t *testing.T) {
	for name, a := range map[string]answering{"QUIC": {quic: true, alpn: ALPN}, "TCP": {tcp: true, alpn: ALPN}} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			f := newFront(t, a)
			root, self := box(t)
			run := runsAt(t, f, Options{Root: root, Command: []string{self, "be", "deaf"}})
			p, _ := f.accept(t, frame.Welcome{})
			p.send(t, frame.Data{Offset: 7, Bytes: make([]byte, frame.MaxData)})
			_, _ = io.CopyN(p, endless{}, 1<<20)
			if bye := await[frame.Bye](t, p); bye.Code != frame.CodeGap {
				t.Errorf("the bye is %+v", bye)
			}
			p.Close()
			run.end(t, frame.CodeGap)
		})
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func TestWhoIsNoRelayIsNotSpokenTo(t *testing.T) {
	leavesNothing(t)
	for name, a := range map[string]answering{
		"of another protocol": {quic: true, tcp: true, alpn: "h3"}, "of no protocol": {tcp: true}, "that is not there": {},
	} {
		f := newFront(t, a)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if conn, err := Dial(ctx, f.address, f.client); err == nil {
			t.Errorf("one %s is dialed", name)
			conn.Close()
		}
		cancel()
	}
	f := newFront(t, answering{quic: true, tcp: true, alpn: ALPN})
	for name, config := range map[string]*tls.Config{
		"of somebody else": {RootCAs: pkitest.New(t).Roots()}, "of another name": {RootCAs: f.roots.Roots(), ServerName: "elsewhere"}, "that nobody knows": {RootCAs: x509.NewCertPool()},
	} {
		if conn, err := Dial(t.Context(), f.address, config); err == nil {
			t.Errorf("a relay %s is dialed", name)
			conn.Close()
		}
	}
	if conn, err := Dial(t.Context(), "no address", f.client); err == nil {
		t.Errorf("%T is dialed", conn)
	}
}

// Both are started and one is kept: the late connection is closed.
func TestOfTwoWaysTheFirstThatIsThroughIsTaken(t *testing.T) {
	type way struct {
		conn *counted
		dial func(context.Context) (Conn, error)
	}
	slow := func() way {
		c := &counted{}
		return way{c, func(ctx context.Context) (Conn, error) { <-ctx.Done(); c.made = true; return c, nil }} // established all the same
	}
	quick := func() way {
		c := &counted{}
		return way{c, func(context.Context) (Conn, error) { c.made = true; return c, nil }}
	}
	broken := func() way {
		return way{nil, func(context.Context) (Conn, error) { return nil, errors.New("blocked") }}
	}
	for name, c := range map[string]struct {
		first, second way
		wins          int
		within        time.Duration
	}{
		"both":            {quick(), quick(), 1, time.Millisecond},
		"UDP is dropped":  {slow(), quick(), 2, 2 * time.Second},
		"UDP is refused":  {broken(), quick(), 2, time.Second / 2},
		"TCP is dropped":  {quick(), slow(), 1, time.Second / 2},
		"nothing is open": {broken(), broken(), 0, time.Second / 2},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			got, err := race(t.Context(), time.Second, c.first.dial, c.second.dial)
			took := time.Since(start)
			for i, w := range []way{c.first, c.second} {
				switch {
				case w.conn == nil:
				case i+1 == c.wins && (got != Conn(w.conn) || w.conn.closed > 0):
					t.Errorf("way %d was to be taken: %v (%v)", i+1, got, err)
				case i+1 != c.wins && w.conn.made && w.conn.closed != 1:
					t.Errorf("way %d was closed %d times", i+1, w.conn.closed)
				}
			}
			if (c.wins == 0) != (err != nil) || took > c.within+time.Second/2 {
				t.Errorf("after %s: %v", took, err)
			}
		})
	}
}

type counted struct {
	Conn
	closed int
	made   bool
}

func (c *counted) Close() error { c.closed++; return nil }

// The node's address changes, or the address of a router before it: the relay sees the new address,
// and the connection goes on.
func TestAQUICConnectionFollowsAChangeOfAddress(t *testing.T) {
	leavesNothing(t)
	f := newFront(t, answering{quic: true, alpn: ALPN})
	n := newRouter(t, f.address)
	f.address = n.address
	root, self := box(t)
	run := runsAt(t, f, Options{Root: root, Command: []string{self, "be", "cat"}})
	p, conn := f.accept(t, frame.Welcome{Limit: window})
	in, at := hears(window), uint64(0)
	say := func(line string) {
		p.send(t, frame.Data{Offset: at, Bytes: []byte(line + "\n")})
		at += uint64(len(line)) + 1
		p.until(t, in, "<"+line+">")
	}
	say("before")
	before := conn.(*quicConn).conn.RemoteAddr().String()
	n.move(t) // the relay's packets are lost until the node sends
	for i := range 200 {
		say(fmt.Sprint("after ", i))
		if conn.(*quicConn).conn.RemoteAddr().String() != before {
			break
		}
	}
	if now := conn.(*quicConn).conn.RemoteAddr().String(); now == before || !strings.HasPrefix(now, "127.0.0.1:") {
		t.Errorf("the relay still sends to %s", now)
	}
	say("and on")
	p.send(t, frame.Bye{Code: "done"})
	run.end(t, "done")
	p.Close()
}

// router forwards packets from an address of its own that can change.
type router struct {
	address string
	inner   net.PacketConn
	mu      sync.Mutex
	outer   *net.UDPConn
	to      *net.UDPAddr
	client  net.Addr
	all     sync.WaitGroup
}

func newRouter(t *testing.T, to string) *router {
	t.Helper()
	inner, err := net.ListenPacket("udp", "127.0.0.1:0")
	ok(t, err)
	addr, err := net.ResolveUDPAddr("udp", to)
	ok(t, err)
	n := &router{address: inner.LocalAddr().String(), inner: inner, to: addr}
	n.move(t)
	n.all.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			k, from, err := inner.ReadFrom(buf)
			if err != nil {
				return
			}
			n.mu.Lock()
			n.client = from
			_, _ = n.outer.Write(buf[:k])
			n.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		inner.Close()
		n.mu.Lock()
		n.outer.Close()
		n.mu.Unlock()
		n.all.Wait()
	})
	return n
}

// move changes the router's address: packets to the old address are lost.
func (n *router) move(t *testing.T) {
	t.Helper()
	outer, err := net.DialUDP("udp", nil, n.to)
	ok(t, err)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.outer != nil {
		n.outer.Close()
	}
	n.outer = outer
	n.all.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			k, err := outer.Read(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			n.mu.Lock()
			client := n.client
			n.mu.Unlock()
			if err == nil && client != nil {
				_, _ = n.inner.WriteTo(buf[:k], client)
			}
		}
	})
}
