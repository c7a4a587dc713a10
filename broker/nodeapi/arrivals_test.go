package nodeapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/pki"
)

// A restarted broker looks up a limited number of unknown nodes at a time, and tells the others
// when to come. It answers known nodes meanwhile.
func TestNodesThatComeAtOnceArePutOff(t *testing.T) {
	b := newBroker(t)
	known, other := b.idles(1), b.idles(2)
	b.contacts.mu.Lock()
	delete(b.contacts.nodes, other.id) // as after a start
	b.contacts.mu.Unlock()
	var leaves []func()
	for range maxArrivals {
		leave, _ := b.arrivals.tryEnter(time.Now())
		leaves = append(leaves, leave)
	}
	const times, own = 30, 25 // own: the broker's statements
	before := b.db.Statements()
	for range times {
		other.get(other.path("/tasks/wait?lanes="))
	}
	if asked := b.db.Statements() - before; asked > own {
		t.Errorf("to put it off %d times took %d statements", times, asked)
	}
	a := other.get(other.path("/tasks/wait?lanes="))
	if a.status != 503 || !strings.Contains(string(a.body), codeBusy) {
		t.Fatalf("status %d, %s", a.status, a.body)
	}
	if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 3 {
		t.Errorf("Retry-After: %q", a.header.Get("Retry-After"))
	}
	if a.closed {
		t.Error("its connection is closed: to open another costs more than to keep it")
	}
	known.idlePoll()
	for _, leave := range leaves {
		leave()
	}
	other.idlePoll()
}

// The more nodes are deferred, the longer the time over which they come, and at no time do many
// more come than can be looked up. After the herd, a deferred node comes soon.
func TestAHerdIsSpread(t *testing.T) {
	for _, herd := range []int{1000, 10000, 60000} {
		t.Run(strconv.Itoa(herd), func(t *testing.T) {
			s, now := newArrivals(), time.Now()
			tenths := map[time.Duration]int{}
			for range herd {
				off := s.deferral(now)
				if off < time.Second || off > maxPutOff {
					t.Fatalf("put off by %v", off)
				}
				tenths[off.Truncate(100*time.Millisecond)]++
			}
			for at, n := range tenths {
				if n > 5*arrivalRate/10 {
					t.Errorf("%d of them are to come in the tenth of a second at %v", n, at)
				}
			}
			if over := min(time.Duration(herd)*time.Second/arrivalRate, maxPutOff); len(tenths) < int(over/(100*time.Millisecond))*9/10 {
				t.Errorf("they are spread over %d tenths of a second, of %v", len(tenths), over)
			}
			if off := s.deferral(now.Add(maxPutOff)); off > 2*time.Second {
				t.Errorf("who comes when they are over is put off by %v", off)
			}
		})
	}
}

// asks is a request of the node on an identified connection, in the form for the handler.
func (n *testNode) asks(ctx context.Context) *call {
	peer := &pki.Peer{NodeIdentity: pki.NodeIdentity{NodeID: n.id, Epoch: n.epoch}, Serial: pki.Serial(n.cert.Leaf), Cert: n.cert.Leaf}
	ctx = context.WithValue(ctx, connectionKey{}, &connection{peer: peer, roots: n.b.trust.Roots()})
	r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{n.cert.Leaf}}
	r.SetPathValue("id", n.id)
	return &call{w: httptest.NewRecorder(), r: r}
}

// A request about a task is not deferred like a poll: it waits for a place while its request lasts.
// Otherwise the task would fail or its lease would run out.
func TestWhatATaskNeedsWaitsForItsPlace(t *testing.T) {
	b := newBroker(t)
	n := b.idles(1)
	for _, route := range routes {
		if route.admit == anyone {
			continue
		}
		t.Run(route.path, func(t *testing.T) {
			b.contacts.mu.Lock()
			delete(b.contacts.nodes, n.id) // as after a start
			b.contacts.mu.Unlock()
			for range maxArrivals {
				b.arrivals.tryEnter(time.Now())
			}
			left, leave := context.WithCancel(t.Context())
			leave()
			_, err := b.identify(n.asks(left), route.admit)
			if strings.HasSuffix(route.path, "/tasks/wait") {
				if asError(err).Code != codeBusy {
					t.Errorf("a poll that finds no place: %v", err)
				}
			} else if !errors.Is(err, context.Canceled) {
				t.Errorf("whose request ended before there was a place: %v", err)
			}
			for range maxArrivals {
				b.arrivals.leave()
			}
			if _, err := b.identify(n.asks(t.Context()), route.admit); err != nil {
				t.Errorf("with a place: %v", err)
			}
		})
	}
}

// One node takes one place, however many requests come at once and with whatever certificates.
func TestANodeTakesOnePlace(t *testing.T) {
	s := newArrivals()
	end := must(s.turn(t.Context(), "n-one"))(t)
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := s.turn(left, "n-one"); !errors.Is(err, context.Canceled) {
		t.Errorf("a second arrival of the node: %v", err)
	}
	must(s.turn(t.Context(), "n-other"))(t)()
	second := make(chan error)
	go func() {
		end, err := s.turn(t.Context(), "n-one")
		if err == nil {
			end()
		}
		second <- err
	}()
	end()
	must0(t, <-second)
	if len(s.lookups) != 0 {
		t.Errorf("nodes that are thought to be looked up: %v", s.lookups)
	}
}

func TestANodeThatIsLookedUpIsNotLookedUpTwice(t *testing.T) {
	b := newBroker(t)
	n := b.idles(1)
	b.contacts.mu.Lock()
	delete(b.contacts.nodes, n.id) // as after a start
	b.contacts.mu.Unlock()
	end := must(b.arrivals.turn(t.Context(), n.id))(t)
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := b.identify(n.asks(left), polling); !errors.Is(err, context.Canceled) {
		t.Errorf("a poll beside it: %v", err)
	}
	end()
	n.idlePoll()
}
