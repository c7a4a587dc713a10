package nodeapi

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// line is one connection of a node, on which a test writes requests byte by byte.
type line struct {
	n *testNode
	*tls.Conn
	answers *bufio.Reader
}

func (n *testNode) line() *line {
	n.b.t.Helper()
	config := pki.PinnedConfig(n.b.trust.RootSHA256(), "127.0.0.1", n.b.clock.Now)
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return n.cert, nil }
	conn := must(tls.Dial("tcp", n.b.addr, config))(n.b.t)
	n.b.t.Cleanup(func() { _ = conn.Close() })
	return &line{n, conn, bufio.NewReader(conn)}
}

// polls sends a poll and returns when it waits.
func (l *line) polls(waiting int) {
	l.n.b.t.Helper()
	l.write(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: broker\r\n\r\n", l.n.path("/tasks/wait?lanes=concurrent")))
	eventually(l.n.b.t, fmt.Sprintf("%d polls wait", waiting), func() bool { return l.n.b.WaitingPolls() == waiting })
}

func (l *line) write(text string) {
	l.n.b.t.Helper()
	_, err := l.Write([]byte(text))
	must0(l.n.b.t, err)
}

func (l *line) read(status int) *http.Response {
	l.n.b.t.Helper()
	answer := must(http.ReadResponse(l.answers, nil))(l.n.b.t)
	_ = answer.Body.Close()
	if answer.StatusCode != status {
		l.n.b.t.Fatalf("answered %s, want %d", answer.Status, status)
	}
	return answer
}

// quiet makes a node without open work.
func (b *testBroker) quiet() *testNode {
	b.t.Helper()
	return b.idles(1)
}

// A connection carries one poll after another, with other requests between them, as if a handler
// had answered each.
func TestAConnectionGoesOnAfterAPollThatWaited(t *testing.T) {
	b := newBroker(t)
	n := b.quiet()
	l := n.line()
	for range 3 {
		l.polls(1)
		k := b.enqueue(n, "node.heartbeat_check", "")
		answer := l.read(200)
		if answer.Header.Get("Date") == "" || answer.Header.Get("Cache-Control") != "no-store" || answer.Header.Get("Content-Type") != "application/json" {
			t.Errorf("the answer's header: %v", answer.Header)
		}
		eventually(t, "no poll waits", func() bool { return b.WaitingPolls() == 0 })
		l.write(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: broker\r\n\r\n", n.path("/tasks/wait?lanes=nothing")))
		l.read(422)
		must(b.queue.Cancel(t.Context(), admin, k.ID, "done"))(t)
		n.get(n.path("/tasks/wait?lanes=")) // the node is told to stop
	}
}

// A task is not leased to a node that has left.
func TestAPollThatIsParkedEndsWhenItsNodeLeaves(t *testing.T) {
	b := newBroker(t)
	n := b.quiet()
	l := n.line()
	l.polls(1)
	must0(t, l.Close())
	eventually(t, "no poll waits", func() bool { return b.WaitingPolls() == 0 })
	k := b.enqueue(n, "node.heartbeat_check", "")
	if got := must(b.db.Task(t.Context(), k.ID))(t); got.Status != broker.TaskQueued {
		t.Errorf("its task is %s", got.Status)
	}
}

func TestAPollThatIsParkedEndsWithItsCertificate(t *testing.T) {
	b := newBroker(t)
	n := b.quiet()
	l := n.line()
	l.polls(1)
	must0(t, b.db.Deny(t.Context(), admin, pki.Serial(n.cert.Leaf), "stolen"))
	if answer := l.read(403); !answer.Close {
		t.Error("the connection is kept")
	}
	b.audited("certificate_denied")
}

// A waiting poll gets no task that a new poll would not get: none while the deny list is unknown,
// and none after the certificate's expiry, even if the time passed during the look.
func TestAPollThatIsParkedGetsNothingThatANewOneWouldNot(t *testing.T) {
	for code, test := range map[string]struct {
		later time.Duration
		known bool // the deny list is
	}{
		"deny_list_unknown":   {denyListGrace + time.Second, false},
		"certificate_expired": {DefaultCertLife + time.Second, true},
	} {
		for _, during := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, during the look: %v", code, during), func(t *testing.T) {
				clock := storetest.NewClock()
				var passes atomic.Bool
				b := newBrokerOn(t, storetest.Open(t, "sqlite", func() time.Time {
					if passes.CompareAndSwap(true, false) {
						clock.Advance(test.later)
					}
					return clock.Now()
				}), clock)
				n := b.quiet()
				there := must(New(t.Context(), b.c))(t) // does not read the list again by itself
				if test.known {
					there.deny.replace(nil, time.Time{}, clock.Now().Add(test.later))
				}
				c := n.asks(t.Context())
				must(there.identify(c, polling))(t)
				p := &parked{a: there, peer: c.peer, node: c.node, lanes: []taskcatalog.Lane{taskcatalog.LaneConcurrent}}
				b.enqueue(n, "node.heartbeat_check", "")
				if passes.Store(during); !during {
					clock.Advance(test.later)
				}
				if reply, err := p.look(t.Context(), true); asError(err).Code != code || reply != nil {
					t.Errorf("%v, %v", reply, err)
				}
			})
		}
	}
}

// A poll that panics, for example over a corrupt record, does not use up one of the node's few
// polls.
func TestAPollThatPanicsIsOver(t *testing.T) {
	over := func(t *testing.T, b *testBroker, c *call) {
		t.Helper()
		eventually(t, "no poll waits", func() bool {
			b.contacts.mu.Lock()
			defer b.contacts.mu.Unlock()
			return b.WaitingPolls() == 0 && c.node.polls == 0
		})
	}
	t.Run("before it waits", func(t *testing.T) {
		b := newBroker(t)
		c := b.quiet().asks(t.Context())
		must(b.identify(c, polling))(t)
		b.contacts.beginPoll(c.node)
		c.peer = &pki.Peer{NodeIdentity: c.peer.NodeIdentity, Serial: c.peer.Serial} // it has no certificate
		func() {
			defer func() {
				if recover() == nil {
					t.Error("it has not panicked: the test shows nothing")
				}
			}()
			_, _ = b.hold(c, nil, false)
		}()
		over(t, b, c)
	})
	t.Run("while it waits", func(t *testing.T) {
		b := newBroker(t)
		c := b.quiet().asks(t.Context())
		must(b.identify(c, polling))(t)
		b.contacts.beginPoll(c.node)
		ours, theirs := net.Pipe()
		p := &parked{a: b.API, peer: &pki.Peer{NodeIdentity: c.peer.NodeIdentity, Serial: c.peer.Serial}, node: c.node}
		leave := b.polls.join(c.peer.Serial, p.interrupt)
		p.leave = sync.OnceFunc(func() {
			leave()
			b.contacts.endPoll(c.node, c.peer.NodeID, b.clock.Now())
		})
		p.wake()
		p.park(ours)
		if _, err := theirs.Read(make([]byte, 1)); err == nil {
			t.Error("it was answered")
		}
		over(t, b, c)
	})
}

// A client that wants its connection closed finds it closed after its poll too.
func TestAPollThatIsTheLastEndsItsConnection(t *testing.T) {
	for _, head := range []string{"HTTP/1.1\r\nConnection: close", "HTTP/1.0", "HTTP/1.0\r\nConnection: keep-alive"} {
		t.Run(head, func(t *testing.T) {
			b := newBroker(t)
			n := b.quiet()
			l := n.line()
			l.write(fmt.Sprintf("GET %s %s\r\nHost: broker\r\n\r\n", n.path("/tasks/wait?lanes=concurrent"), head))
			eventually(t, "it waits", func() bool { return b.WaitingPolls() == 1 })
			b.enqueue(n, "node.heartbeat_check", "")
			if answer := l.read(200); !answer.Close {
				t.Error("the connection is kept")
			}
		})
	}
}

// A poll with a body is not parked: the bytes after its head would count as a request of their own,
// which a proxy before the broker has not seen as a request.
func TestAPollWithABodyIsRefused(t *testing.T) {
	for _, body := range []string{"Content-Length: 200", "Transfer-Encoding: chunked"} {
		t.Run(body, func(t *testing.T) {
			b := newBroker(t)
			n := b.quiet()
			l := n.line()
			l.write(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: broker\r\n%s\r\n\r\n", n.path("/tasks/wait?lanes=concurrent"), body))
			if answer := l.read(400); !answer.Close {
				t.Error("the connection is kept")
			}
			b.audited("malformed")
		})
	}
}

// A connection that cannot be taken from its server is an error, not a missing answer.
func TestAPollThatCannotWaitIsAnError(t *testing.T) {
	b := newBroker(t)
	c := b.quiet().asks(t.Context()) // the writer does not belong to a server
	must(b.identify(c, polling))(t)
	b.contacts.beginPoll(c.node)
	if value, err := b.hold(c, nil, false); value != nil || err == nil {
		t.Errorf("%v, %v", value, err)
	}
}

// Agents never send a request before the answer to the last one. Such a connection ends, and its
// place is freed.
func TestARequestBeforeTheAnswerEndsTheConnection(t *testing.T) {
	b := newBroker(t)
	n := b.quiet()
	l := n.line()
	l.polls(1)
	l.write("GET / HTTP/1.1\r\nHost: broker\r\n\r\n")
	if _, err := http.ReadResponse(l.answers, nil); err == nil {
		t.Error("it was answered")
	}
	eventually(t, "no poll waits", func() bool { return b.WaitingPolls() == 0 })
}

func TestAPollThatIsParkedIsAnsweredWhenTheBrokerStops(t *testing.T) {
	b := newBroker(t)
	n := b.quiet()
	l := n.line()
	l.polls(1)
	b.stop()
	if answer := l.read(204); !answer.Close {
		t.Error("the connection is kept")
	}
}

// Polls that come at once do not all end at once; otherwise ten thousand nodes would come together
// forever.
func TestPollsThatComeTogetherPart(t *testing.T) {
	a := &API{idleConns: newIdleConns()}
	a.idleConns.closed = true // nothing must wait
	ends := map[time.Duration]bool{}
	for range 500 {
		p := &parked{a: a}
		came := time.Now()
		if p.park(nil) {
			t.Fatal("a closed idleConns took it")
		}
		if held := p.end.Sub(came); held > wire.MaxWait+time.Since(came) || held < wire.MaxWait-spread-wakeInterval {
			t.Fatalf("a poll is held for %v", held)
		}
		ends[p.end.Sub(clockOrigin)] = true
	}
	if want := int(spread / wakeInterval / 2); len(ends) < want {
		t.Errorf("500 polls end at %d times, want at least %d", len(ends), want)
	}
}

func TestPollsEndTogetherAndNoneTooLate(t *testing.T) {
	const every = 37 * time.Millisecond
	ends := map[time.Duration]int{}
	for now := 11 * time.Second; now < 21*time.Second; now += every {
		for _, less := range []time.Duration{0, spread / 3, spread - 1} {
			end := endOf(now, less)
			if held := end - now; held > wire.MaxWait-less || held <= wire.MaxWait-less-wakeInterval {
				t.Fatalf("a poll of %v that is to end %v early is held for %v", now, less, held)
			}
			ends[end]++
		}
	}
	if most := int(3 * 10 * time.Second / every / 5); len(ends) > most {
		t.Errorf("they end at %d times, want no more than %d", len(ends), most)
	}
}
