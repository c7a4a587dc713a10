package agent

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/taskcatalog"
)

// seen is the present status.
func (p *process) seen() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// refuseWhile refuses requests to a path while flag is set. The broker's lock guards flag.
func refuseWhile(path string, flag *bool, status int, code string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, path) || !*flag {
			return false
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"title":"refused","status":%d,"detail":"cannot: %s","code":%q}`, status, code, code)
		return true
	}
}

// answerOnce answers a single request to a path with body.
func answerOnce(path string, done *bool, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, path) || *done {
			return false
		}
		*done = true
		fmt.Fprint(w, body)
		return true
	}
}

func sameKey(a, b crypto.Signer) bool {
	x, errX := x509.MarshalPKIXPublicKey(a.Public())
	y, errY := x509.MarshalPKIXPublicKey(b.Public())
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func TestRetryAfterIsHonouredWithinBounds(t *testing.T) {
	for header, want := range map[string][2]time.Duration{
		"120":      {120 * time.Second, 130 * time.Second},
		"31536000": {5 * time.Minute, 6 * time.Minute},
		"":         {500 * time.Millisecond, 2 * time.Second},
		"never":    {500 * time.Millisecond, 2 * time.Second},
		"-5":       {500 * time.Millisecond, 2 * time.Second},
	} {
		inBubble(t, func(l *lab) {
			p := l.start()
			l.works(p)
			var at []time.Time
			l.broker.Lock()
			l.broker.Before = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/tasks/wait") {
					return false
				}
				if at = append(at, time.Now()); len(at) > 1 {
					return false
				}
				w.Header().Set("Retry-After", header)
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			l.broker.Unlock()
			l.until("it has polled again", func() bool { l.broker.Lock(); defer l.broker.Unlock(); return len(at) == 2 })
			if gap := at[1].Sub(at[0]); gap < want[0] || gap > want[1] {
				t.Errorf("Retry-After %q: polled again after %s, want %s to %s", header, gap, want[0], want[1])
			}
		})
	}
}

func TestABrokerThatDoesNotHoldThePollIsNotSpunOn(t *testing.T) {
	inBubble(t, func(l *lab) {
		p := l.start()
		l.works(p)
		l.broker.Lock()
		l.broker.Before = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/tasks/wait") {
				w.WriteHeader(http.StatusNoContent)
				return true
			}
			return false
		}
		l.broker.Unlock()
		before := l.broker.Count("wait")
		time.Sleep(30 * time.Minute)
		if n := l.broker.Count("wait") - before; n > 80 || n < 20 {
			t.Fatalf("%d polls in half an hour", n)
		}
	})
}

// watched is a connection that signals its first close.
type watched struct {
	net.Conn
	once   sync.Once
	closed func()
}

func (w *watched) Close() error {
	w.once.Do(w.closed)
	return w.Conn.Close()
}

func TestAnIdleNodePollsOnceAMinuteOverOneConnection(t *testing.T) {
	inBubble(t, func(l *lab) {
		var dials, open atomic.Int64
		dial := l.config.Dial
		l.config.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			dials.Add(1)
			open.Add(1)
			return &watched{Conn: conn, closed: func() { open.Add(-1) }}, nil
		}
		l.works(l.start())
		polls, dialled := l.broker.Count("wait"), dials.Load()
		time.Sleep(time.Hour)
		if n := l.broker.Count("wait") - polls; n < 71 || n > 73 {
			t.Errorf("%d polls of 50s in an hour", n)
		}
		if n := dials.Load() - dialled; n != 0 || open.Load() != 1 {
			t.Errorf("%d connections were made in an hour, and %d are open; there should be one, which was there before", n, open.Load())
		}
	})
}

func TestAnAnswerThatMakesNoSenseIsNoTask(t *testing.T) {
	for _, body := range []string{`{"tasks":[{}]}`, `{"tasks":[{"task_id":"t-9","attempt":1,"lease_until":"2026-01-01T00:00:00Z","envelope":"{}"}]}`, `{"run":"sh"}`, `[]`, `<html>`} {
		inBubble(t, func(l *lab) {
			p := l.start()
			l.works(p)
			done := false
			l.broker.Lock()
			l.broker.Before = answerOnce("/tasks/wait", &done, body)
			l.broker.Unlock()
			time.Sleep(5 * time.Minute)
			if len(p.seen().Running) != 0 {
				t.Errorf("%s: runs something", body)
			}
			l.works(p)
		})
	}
}

// Another version may be able to load the identity. An agent that cannot must not report READY.
func TestAnAgentThatCannotTellWhoItIsIsNotReady(t *testing.T) {
	inBubble(t, func(l *lab) {
		p := l.start()
		l.works(p)
		p.quit()
		if err := os.WriteFile(filepath.Join(l.config.StateDir, "rotate.json"), []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
		var ready atomic.Bool
		l.config.Notify = func(state string) { ready.Store(ready.Load() || state == "READY=1") }
		p = l.start()
		<-p.ended
		if code := taskcatalog.CodeOf(p.err, ""); ready.Load() || code != identity.CodeStateInvalid {
			t.Errorf("ready: %v; %v", ready.Load(), p.err)
		}
	})
}

func TestSystemdHearsThatTheAgentIsReadyAndAlive(t *testing.T) {
	inBubble(t, func(l *lab) {
		heard := map[string]int{}
		l.config.Watchdog = time.Minute
		l.config.Notify = func(state string) {
			l.broker.Lock()
			defer l.broker.Unlock()
			heard[strings.SplitAfter(state, "=")[0]]++
			if strings.HasPrefix(state, "STATUS=connected as n-") {
				heard["connected"]++
			}
		}
		p := l.start()
		l.works(p)
		time.Sleep(time.Hour)
		p.quit()
		l.broker.Lock()
		defer l.broker.Unlock()
		if heard["READY="] != 1 || heard["WATCHDOG="] < 115 || heard["connected"] == 0 || heard["STOPPING="] != 1 {
			t.Fatalf("heard: %v", heard)
		}
	})
}

func TestTheStatusFileSaysHowTheNodeStands(t *testing.T) {
	inBubble(t, func(l *lab) {
		if _, err := ReadStatus(l.config.StatusFile); taskcatalog.CodeOf(err, "") != CodeNotRunning {
			t.Fatal(err)
		}
		p := l.start()
		l.works(p)
		l.until("it is written", func() bool { s, err := ReadStatus(l.config.StatusFile); return err == nil && s.Phase == PhaseConnected })
		s, err := ReadStatus(l.config.StatusFile)
		if err != nil || s.Judge(time.Now()) != nil || s.NodeID != l.nodeID(p) || s.TrustVersion != 1 || !s.LedgerReserved || s.RootFreeBytes == 0 {
			t.Fatalf("%+v %v", s, err)
		}
		if err := s.Judge(time.Now().Add(time.Hour)); taskcatalog.CodeOf(err, "") != CodeNotRunning {
			t.Fatal("an hour old and still good", err)
		}
	})
}
