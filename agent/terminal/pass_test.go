package terminal

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// gone reads until the connection has ended, and fails if this takes longer than most.
func (p *peer) gone(t *testing.T, most time.Duration) {
	t.Helper()
	start := time.Now()
	for {
		if _, err := p.reader.Next(); err != nil {
			break
		}
	}
	if took := time.Since(start); took > most {
		t.Errorf("the connection lasted %s", took)
	}
}

func TestASessionThatIsSentElsewhereGoesOnThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		run, prog := plays(r)
		first, _ := r.welcome(t, frame.Welcome{Token: "second", Limit: 100})
		first.send(t, frame.Data{Bytes: []byte("ls\r")})
		prog.said <- []byte("a b c")
		await[frame.Data](t, first)
		r.passes <- Pass{Relay: "two:2", Token: "other"}
		first.gone(t, time.Second)
		p, hello := r.welcome(t, frame.Welcome{Token: "next", Taken: 5, Limit: 100})
		if p.relay != "two:2" || hello.Token != "other" || hello.Taken != 3 || hello.Sent != 5 {
			t.Errorf("it came to %s with %+v", p.relay, hello)
		}
		prog.said <- []byte("d")
		if f := await[frame.Data](t, p); f.Offset != 5 || string(f.Bytes) != "d" {
			t.Errorf("the output is %+v", f)
		}
		synctest.Wait() // everything sent has arrived
		p.Close()       // a break: it comes back to the relay of the last pass, not to the relay before
		p, hello = r.welcome(t, frame.Welcome{Taken: 6, Limit: 100})
		if p.relay != "two:2" || hello.Token != "next" {
			t.Errorf("it came to %s with %+v", p.relay, hello)
		}
		p.send(t, frame.Bye{Code: "done"})
		run.end(t, "done")
	})
}

// A relay that accepts the connection and sends nothing does not delay a session sent elsewhere,
// and the second relay's token is not shown to the first.
func TestASessionIsSentElsewhereInTheMidstOfAGreeting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		run, _ := plays(r)
		first := <-r.calls
		if hello := first.next(t).(frame.Hello); hello.Token != "first" {
			t.Errorf("the hello is %+v", hello)
		}
		start := time.Now()
		r.passes <- Pass{Relay: "two:2", Token: "other"}
		p, hello := r.welcome(t, frame.Welcome{Token: "next", Limit: 100})
		if p.relay != "two:2" || hello.Token != "other" || time.Since(start) > time.Second {
			t.Errorf("it came to %s with %+v, after %s", p.relay, hello, time.Since(start))
		}
		first.gone(t, time.Second)
		p.send(t, frame.Bye{Code: "done"})
		run.end(t, "done")
	})
}

// A replaced session does not fight for the place, and a session with a refused token does not ask
// again. Each waits for another pass, and the program with it.
func TestASessionThatNeedsAnotherTokenAsksNobodyAndWaits(t *testing.T) {
	for _, bye := range []frame.Bye{
		{Code: CodeReplaced, Lasts: true}, {Code: "terminal_token_used"}, {Code: "terminal_token_unknown"}, {Code: "terminal_token_unknown", Lasts: true}, {Code: "terminal_token_superseded", Lasts: true}, {Code: "terminal_token_expired"}, {Code: "terminal_wrong_key"},
	} {
		for _, comes := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				r := newRelay()
				run, prog := plays(r)
				p, _ := r.welcome(t, frame.Welcome{Token: "second", Limit: 100})
				dials := 0
				r.goDown(func() error { dials++; return nil })
				start := time.Now()
				p.send(t, bye)
				synctest.Wait() // everything sent has arrived
				p.Close()
				if !comes {
					run.end(t, CodeDetached)
					if took := time.Since(start); took < 2*time.Minute || took > 2*time.Minute+byeTimeout || dials != 0 {
						t.Errorf("after %s it ended in %s, and dialed %d times", bye.Code, took, dials)
					}
					return
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if dials != 0 || prog.isHungUp() {
					t.Fatalf("after %s it dialed %d times; its program has ended: %t", bye.Code, dials, prog.isHungUp())
				}
				r.passes <- Pass{Relay: "two:2", Token: "other"}
				p, hello := r.welcome(t, frame.Welcome{Limit: 100})
				if hello.Token != "other" {
					t.Errorf("the hello is %+v", hello)
				}
				p.send(t, frame.Bye{Code: "done"})
				run.end(t, "done")
			})
		}
	}
}

// The same for a refusal before the Welcome, on the way back.
func TestATokenThatIsRefusedOnTheWayBackKeepsTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		run, _ := plays(r)
		p, _ := r.welcome(t, frame.Welcome{Token: "second", Limit: 100})
		synctest.Wait() // everything sent has arrived
		p.Close()
		p = <-r.calls
		p.next(t)
		p.send(t, frame.Bye{Code: "terminal_token_used"})
		synctest.Wait() // everything sent has arrived
		p.Close()
		r.passes <- Pass{Relay: "two:2", Token: "other"}
		p, _ = r.welcome(t, frame.Welcome{Limit: 100})
		p.send(t, frame.Bye{Code: "done"})
		run.end(t, "done")
	})
}

// The same for the very first token: a restarted broker has sent another after it. No program
// starts, and no relay is asked, before the other token arrives; if none does, no relay was
// reached.
func TestATokenThatIsRefusedAtTheBeginningIsNotTheEnd(t *testing.T) {
	for _, comes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRelay()
			run, _ := plays(r)
			p := <-r.calls
			p.next(t)
			dials := 0
			r.goDown(func() error { dials++; return nil })
			start := time.Now()
			p.send(t, frame.Bye{Code: "terminal_token_unknown"})
			synctest.Wait() // everything sent has arrived
			p.Close()
			if !comes {
				run.end(t, CodeRelayUnreachable)
				if took := time.Since(start); took > time.Minute || dials != 0 {
					t.Errorf("it took %s, and dialed %d times", took, dials)
				}
				return
			}
			time.Sleep(30 * time.Second)
			r.passes <- Pass{Relay: "one:1", Token: "other"}
			p, hello := r.welcome(t, frame.Welcome{Limit: 100})
			if hello.Token != "other" || dials != 1 {
				t.Errorf("it comes with %+v, dialed %d times", hello, dials)
			}
			p.send(t, frame.Bye{Code: "done"})
			run.end(t, "done")
		})
	}
}

// A handover with a useless token takes nothing from a session: the earlier token of the same relay
// stays valid.
func TestATokenOfTheSameRelayIsKeptBesideThatOfAHandover(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, r *relay){
		"the relay is away for longer": func(t *testing.T, r *relay) {
			time.Sleep(40 * time.Second)
			r.goDown(nil)
		},
		"the relay refuses it": func(t *testing.T, r *relay) {
			r.goDown(nil)
			p := <-r.calls
			if hello := p.next(t).(frame.Hello); hello.Token != "late" {
				t.Errorf("the hello is %+v", hello)
			}
			p.send(t, frame.Bye{Code: "terminal_token_expired"})
			synctest.Wait() // everything sent has arrived
			p.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRelay()
				run, prog := plays(r)
				p, _ := r.welcome(t, frame.Welcome{Token: "second", Limit: 100})
				r.goDown(func() error { return errors.New("nobody answers") })
				synctest.Wait() // everything sent has arrived
				p.Close()
				for _, token := range []string{"early", "late"} { // the second spoils only the first
					r.passes <- Pass{Relay: p.relay, Token: token, Until: time.Now().Add(30 * time.Second)}
				}
				spoil(t, r)
				p, hello := r.welcome(t, frame.Welcome{Token: "third", Limit: 100})
				if hello.Token != "second" || prog.isHungUp() {
					t.Errorf("the hello is %+v", hello)
				}
				p.send(t, frame.Bye{Code: "done"})
				run.end(t, "done")
			})
		})
	}
}

// A token is not shown to another relay.
func TestATokenIsNotKeptForAnotherRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, dials := newRelay(), 0
		run, _ := plays(r)
		p, _ := r.welcome(t, frame.Welcome{Token: "second", Limit: 100})
		r.goDown(func() error { return errors.New("nobody answers") })
		synctest.Wait() // everything sent has arrived
		p.Close()
		r.passes <- Pass{Relay: "two:2", Token: "other", Until: time.Now().Add(30 * time.Second)}
		time.Sleep(40 * time.Second)
		r.goDown(func() error { dials++; return errors.New("nobody answers") })
		run.end(t, CodeDetached)
		if dials != 0 {
			t.Errorf("it was dialed %d times", dials)
		}
	})
}

func TestATokenThatIsTooOldIsNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, dials := newRelay(), 0
		r.goDown(func() error { dials++; return errors.New("nobody answers") })
		p := newPlayed()
		o := Options{SessionID: "s-1", Pass: Pass{Token: "first", Until: time.Now().Add(10 * time.Second)}, Passes: r.passes, Dial: r.dial, ConnectTimeout: time.Minute, DetachTimeout: time.Minute}
		run := begin(newSession(o, func() (program, error) { return p, nil }))
		time.Sleep(30 * time.Second)
		synctest.Wait()
		had := dials
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if had == 0 || dials != had {
			t.Errorf("it was dialed %d times, and then %d", had, dials)
		}
		r.goDown(nil)
		r.passes <- Pass{Relay: "one:1", Token: "other"}
		peer, hello := r.welcome(t, frame.Welcome{Limit: 100})
		if hello.Token != "other" {
			t.Errorf("the hello is %+v", hello)
		}
		peer.send(t, frame.Bye{Code: "done"})
		run.end(t, "done")
	})
}

// A handover restarts the time within which a relay must be reached.
func TestAHandoverGivesASessionTimeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		run, _ := plays(r)
		p, _ := r.welcome(t, frame.Welcome{Token: "second", Limit: 100})
		r.goDown(func() error { return errors.New("nobody answers") })
		synctest.Wait() // everything sent has arrived
		p.Close()
		start := time.Now()
		time.Sleep(90 * time.Second)
		r.passes <- Pass{Relay: "two:2", Token: "other"}
		run.end(t, CodeDetached)
		if took := time.Since(start); took < 3*time.Minute || took > 4*time.Minute {
			t.Errorf("it ended after %s", took)
		}
	})
}

// The program ends while no relay is connected: all its output and its end wait for the relay that
// comes back, or for a relay that takes over.
func TestAnExitWaitsForTheRelayThatIsAway(t *testing.T) {
	for name, elsewhere := range map[string]bool{"back": false, "to another": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRelay()
				run, prog := plays(r)
				p, _ := r.welcome(t, frame.Welcome{Token: "second", Limit: 100})
				r.goDown(func() error { return errors.New("nobody answers") })
				synctest.Wait() // everything sent has arrived
				p.Close()
				synctest.Wait()
				prog.said <- []byte("last words")
				prog.exit(5)
				time.Sleep(time.Minute)
				synctest.Wait()
				r.goDown(nil)
				if elsewhere {
					r.passes <- Pass{Relay: "two:2", Token: "other"}
				}
				p, hello := r.welcome(t, frame.Welcome{Limit: 100})
				if hello.Sent != 10 {
					t.Errorf("the hello is %+v", hello)
				}
				if f := await[frame.Data](t, p); string(f.Bytes) != "last words" {
					t.Errorf("the output is %q", f.Bytes)
				}
				if f := await[frame.EOF](t, p); f.Offset != 10 {
					t.Errorf("the output ends at %d", f.Offset)
				}
				if f := p.next(t); f != (frame.Exit{Status: 5}) {
					t.Errorf("the end is %+v", f)
				}
				p.send(t, frame.Bye{})
				if res := run.end(t, ""); res.Exit == nil || res.Exit.Status != 5 {
					t.Errorf("the result is %+v", res)
				}
			})
		})
	}
}

// A link over which nothing arrives any more is abandoned within seconds.
func TestALinkThatIsHalfDeadIsLeftWithinSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		run, _ := plays(r)
		p, _ := r.welcome(t, frame.Welcome{Token: "second", Limit: 100})
		start := time.Now()
		p.gone(t, 12*time.Second)
		if took := time.Since(start); took < 9*time.Second {
			t.Errorf("it was left after %s", took)
		}
		p, _ = r.welcome(t, frame.Welcome{Limit: 100})
		p.send(t, frame.Bye{Code: "done"})
		run.end(t, "done")
	})
}
