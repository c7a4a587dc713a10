package attach

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Across a break no typed byte is lost, and no byte comes twice, in either direction.
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
		// The relay has four of the bytes, and repeats the end of the screen. It is another relay,
		// and allows less than the previous relay until it has heard the node.
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

func TestASilentConnectionIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		c := s.join()
		p := until(c, func(frame.Ping) bool { return true })
		c.send(frame.Pong(p))
		began := time.Now()
		until(c, func(frame.Ping) bool { return true }) // and this ping is not answered
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

// Errors that may pass are retried for as long as the session waits; other errors are reported at
// once.
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
	synctest.Test(t, func(t *testing.T) { // the session ended meanwhile
		s := start(t, func(s *side) { s.looked = End{Code: "node_quarantined"} })
		conn := s.join()
		s.refuse <- broker.Errorf(broker.Refused, "terminal_session_over", "over")
		conn.send(frame.Exit{Status: 4})
		_ = conn.Close()
		if e := s.over(); s.err != nil || e.Code != "node_quarantined" || *e.Status != 4 {
			t.Errorf("%+v, %v", e, s.err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // nothing is lost before the session has begun
		s := start(t, func(s *side) { s.refuse <- failed })
		s.over()
		if s.err != error(failed) {
			t.Errorf("%v", s.err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // the session never began
		s := start(t, nil)
		began := time.Now()
		s.over()
		if took := time.Since(began); broker.AsError(s.err).Code != "terminal_lost" || took > 2*firstWithin {
			t.Errorf("%v after %s", s.err, took)
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
	synctest.Test(t, func(t *testing.T) { // and comes back after another client has typed
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

// A broker that accepts and breaks off, again and again, is retried with pauses; connections that
// never get a Welcome are given up in the end.
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
