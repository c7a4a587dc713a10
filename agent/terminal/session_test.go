package terminal

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

func contains(all []byte, text string) bool { return bytes.Contains(all, []byte(text)) }

func TestNoProgramRunsBeforeTheRelayLetsTheSessionIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		began := false
		s := newSession(Options{SessionID: "s-1", Pass: Pass{Token: "used"}, Dial: r.dial, ConnectTimeout: time.Minute}, func() (program, error) {
			began = true
			return newPlayed(), nil
		})
		run := begin(s)
		p := <-r.calls
		if hello := p.next(t).(frame.Hello); hello.Token != "used" || hello.SessionID != "s-1" || hello.Version != frame.Version {
			t.Errorf("the hello is %+v", hello)
		}
		p.send(t, frame.Bye{Code: "token_used", Text: "the token was used"})
		run.end(t, "token_used")
		if began {
			t.Error("the program runs")
		}
	})
}

func TestARelayThatIsNotThereIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, dials := newRelay(), 0
		r.down = func() error { dials++; return errors.New("nobody answers") }
		start := time.Now()
		run, _ := plays(r)
		run.end(t, CodeRelayUnreachable)
		if took := time.Since(start); took != time.Minute || dials < 8 || dials > 60 {
			t.Errorf("it was dialed %d times in %s", dials, took)
		}
	})
}

func TestAProgramThatCannotStartIsToldToTheRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		s := newSession(Options{Dial: r.dial, ConnectTimeout: time.Minute}, func() (program, error) {
			return nil, taskcatalog.Errorf(CodeUserUnknown, "no such user")
		})
		run := begin(s)
		p, _ := r.welcome(t, frame.Welcome{})
		if bye := await[frame.Bye](t, p); bye.Code != CodeUserUnknown || bye.Lasts {
			t.Errorf("the bye is %+v", bye)
		}
		p.Close()
		run.end(t, CodeUserUnknown)
	})
}

func TestInputOutputAndTheEndPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		run, prog := plays(r)
		p, _ := r.welcome(t, frame.Welcome{Limit: 100})
		p.send(t, frame.Data{Bytes: []byte("ls\r")}, frame.Ping{Nonce: 7})
		if pong := await[frame.Pong](t, p); pong.Nonce != 7 {
			t.Errorf("the pong is %d", pong.Nonce)
		}
		synctest.Wait()
		if got := prog.input(); got != "ls\r" {
			t.Errorf("the program was told %q", got)
		}
		prog.said <- []byte("a b c")
		if f := await[frame.Data](t, p); f.Offset != 0 || string(f.Bytes) != "a b c" {
			t.Errorf("the output is %+v", f)
		}
		prog.exit(3)
		if f := await[frame.EOF](t, p); f.Offset != 5 {
			t.Errorf("the output ends at %d", f.Offset)
		}
		if f := p.next(t); f != (frame.Exit{Status: 3}) {
			t.Errorf("the end is %+v", f)
		}
		p.send(t, frame.Bye{})
		if res := run.end(t, ""); res.Exit == nil || res.Exit.Status != 3 || prog.isHungUp() {
			t.Errorf("the result is %+v", res)
		}
	})
}

// A relay that resumes a session does not know that its input has ended, and lets an operator type:
// the program receives nothing of this input, and runs on.
func TestInputAfterTheEndIsTakenAsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		run, prog := plays(r)
		p, _ := r.welcome(t, frame.Welcome{Token: "second", Limit: 100})
		p.send(t, frame.Data{Bytes: []byte("all\n")}, frame.EOF{Offset: 4})
		synctest.Wait() // everything sent has arrived
		p.Close()
		p, hello := r.welcome(t, frame.Welcome{Limit: 100})
		if hello.Taken != 4 {
			t.Errorf("%+v", hello)
		}
		for await[frame.Ack](t, p).Limit < 7 { // nothing is sent before it is allowed
		}
		p.send(t, frame.Data{Offset: 4, Bytes: []byte("ls\r")})
		for await[frame.Ack](t, p).Taken != 7 {
		}
		p.send(t, frame.EOF{Offset: 7})
		synctest.Wait()
		if got := prog.input(); got != "all\n\x00" { // the last byte is the end
			t.Errorf("the program has %q", got)
		}
		p.send(t, frame.Data{Offset: 7, Bytes: []byte("x")}) // after the end of input
		run.end(t, frame.CodeAfterEnd)
	})
}

// The relay sets the pace of the program: no byte of output is read that the relay has no room for.
func TestOutputIsReadAsFarAsItIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		run, prog := plays(r)
		p, _ := r.welcome(t, frame.Welcome{Limit: 10})
		prog.said <- bytes.Repeat([]byte("y"), 100)
		in := frame.NewInflow(0)
		in.Allow(10)
		for got := 0; got < 10; {
			f, err := in.Take(await[frame.Data](t, p))
			ok(t, err)
			got += len(f)
		}
		synctest.Wait()
		if len(prog.rest) != 90 {
			t.Errorf("%d bytes were read of the program", 100-len(prog.rest))
		}
		p.send(t, in.Allow(20))
		if f := await[frame.Data](t, p); len(f.Bytes) != 20 || f.Offset != 10 {
			t.Errorf("then come %d at %d", len(f.Bytes), f.Offset)
		}
		// However much the relay allows, the buffer is bounded.
		p.send(t, frame.Ack{Taken: 30, Limit: 1 << 40})
		go func() {
			for {
				select {
				case prog.said <- make([]byte, 64<<10):
				case <-prog.ended:
					return
				}
			}
		}()
		for got := 30; got < outputKept+30; {
			got += len(await[frame.Data](t, p).Bytes)
		}
		for nonce := range uint64(3) {
			time.Sleep(time.Second)
			p.send(t, frame.Ping{Nonce: nonce})
			if f, is := p.next(t).(frame.Pong); !is || f.Nonce != nonce {
				t.Errorf("more comes than is kept")
			}
		}
		p.send(t, frame.Bye{Code: "done"})
		run.end(t, "done")
	})
}

func TestInputThatTheProgramDoesNotTakeIsNotAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		run, prog := plays(r)
		prog.stuck = make(chan struct{})
		p, _ := r.welcome(t, frame.Welcome{})
		var out frame.Outflow
		told := await[frame.Ack](t, p)
		for range 4 {
			ok(t, out.Acked(told))
			if out.Room() == 0 {
				break
			}
			p.send(t, out.Add(make([]byte, out.Room())))
			told = await[frame.Ack](t, p)
		}
		if told.Limit != inputWindow || told.Taken != inputWindow {
			t.Errorf("while nothing is taken, %+v is told", told)
		}
		close(prog.stuck)
		for told.Limit < 2*inputWindow-inputWindow/2 {
			told = await[frame.Ack](t, p)
		}
		p.send(t, frame.Bye{Code: "done"})
		run.end(t, "done")
	})
}

func TestAByeEndsTheSessionAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		run, prog := plays(r)
		p, _ := r.welcome(t, frame.Welcome{})
		start := time.Now()
		p.send(t, frame.Bye{Code: "node_drained", Text: "the node\x1b[2J is drained"})
		run.end(t, "node_drained")
		if !prog.isHungUp() || time.Since(start) > 0 {
			t.Errorf("hung up: %v, after %s", prog.isHungUp(), time.Since(start))
		}
	})
}

func TestABreakIsFollowedByTheHangUpOnlyAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		run, prog := plays(r)
		p, _ := r.welcome(t, frame.Welcome{Token: "second"})
		r.down = func() error { return errors.New("nobody answers") }
		start := time.Now()
		p.Close()
		time.Sleep(2*time.Minute - time.Second)
		synctest.Wait()
		if prog.isHungUp() {
			t.Errorf("it is hung up after %s", time.Since(start))
		}
		run.end(t, CodeDetached)
		if took := time.Since(start); !prog.isHungUp() || took != 2*time.Minute {
			t.Errorf("it ended after %s", took)
		}
	})
}

func TestAnEndThatTheRelayDoesNotTakeIsNotWaitedForForEver(t *testing.T) {
	for name, limit := range map[string]uint64{"it takes the output": 10, "it takes nothing": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRelay()
				run, prog := plays(r)
				p, _ := r.welcome(t, frame.Welcome{Limit: limit})
				start := time.Now()
				prog.exit(3)
				for over := false; !over && time.Since(start) < time.Hour; {
					switch p.next(t).(type) {
					case frame.Ping:
						p.send(t, frame.Pong{})
					case frame.Bye:
						over = true
					}
				}
				p.Close()
				if res := run.end(t, ""); res.Exit == nil || res.Exit.Status != 3 || time.Since(start) != 2*time.Minute {
					t.Errorf("the result is %+v after %s", res, time.Since(start))
				}
			})
		})
	}
}

// The relay treats any other frame as an attack.
func TestAfterAnExitComesNothingButABye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		run, prog := plays(r)
		p, _ := r.welcome(t, frame.Welcome{Limit: 10})
		prog.exit(3)
		await[frame.Exit](t, p)
		p.send(t, frame.Data{Bytes: []byte("too late")}, frame.Ping{Nonce: 1})
		time.AfterFunc(2*deadAfter, run.stop) // a silence that would cause a ping
		if f := p.next(t); f.Kind() != frame.KindBye {
			t.Errorf("then comes %+v", f)
		}
		p.Close()
		<-run.over
	})
}

// The Bye of a relay that makes way for another is no end, and the exit is not lost.
func TestAnExitIsToldAgainToTheNextRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		run, prog := plays(r)
		p, _ := r.welcome(t, frame.Welcome{Token: "second", Limit: 10})
		prog.said <- []byte("out")
		prog.exit(4)
		await[frame.Exit](t, p)
		p.send(t, frame.Bye{Code: "relay_stopping", Lasts: true})
		p, hello := r.welcome(t, frame.Welcome{Limit: 10})
		if hello.Token != "second" || hello.From != 0 || hello.Sent != 3 {
			t.Errorf("the hello is %+v", hello)
		}
		if f := await[frame.Data](t, p); string(f.Bytes) != "out" {
			t.Errorf("again comes %+v", f)
		}
		if exit := await[frame.Exit](t, p); exit.Status != 4 {
			t.Errorf("the end is %+v", exit)
		}
		p.send(t, frame.Bye{})
		run.end(t, "")
	})
}

func TestAStoppedSessionSaysSoAndIsHungUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		run, prog := plays(r)
		p, _ := r.welcome(t, frame.Welcome{})
		synctest.Wait() // the session knows of its Welcome
		run.stop()
		if bye := await[frame.Bye](t, p); bye.Code != CodeClosed || bye.Lasts {
			t.Errorf("the bye is %+v", bye)
		}
		p.Close()
		run.end(t, CodeClosed)
		if !prog.isHungUp() {
			t.Error("the program goes on")
		}
	})
}

// A last word that the relay does not read does not delay the end.
func TestARelayThatReadsNothingDoesNotKeepASessionFromEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		run, prog := plays(r)
		_, _ = r.welcome(t, frame.Welcome{Limit: 100})
		prog.said <- []byte("more")
		start := time.Now()
		run.stop()
		run.end(t, CodeClosed)
		if took := time.Since(start); took > byeTimeout {
			t.Errorf("it took %s", took)
		}
	})
}

func TestASilentRelayIsAsked_AndThenLeftForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		run, _ := plays(r)
		p, _ := r.welcome(t, frame.Welcome{Token: "second"})
		start := time.Now()
		pings := 0
		for {
			f, err := p.reader.Next()
			if err != nil {
				break
			}
			if _, is := f.(frame.Ping); is {
				pings++
				if pings <= 6 { // kept as long as it answers
					p.send(t, frame.Pong{})
				}
			}
		}
		if took := time.Since(start); took < 6*pingAfter || took > 8*pingAfter+deadAfter || pings < 7 {
			t.Errorf("it was left after %s and %d pings", took, pings)
		}
		p, hello := r.welcome(t, frame.Welcome{})
		if hello.Token != "second" {
			t.Errorf("the hello is %+v", hello)
		}
		p.send(t, frame.Bye{Code: "done"})
		run.end(t, "done")
	})
}

func TestAStormOfSizesComesToOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		run, prog := plays(r)
		p, _ := r.welcome(t, frame.Welcome{})
		go func() {
			for { // read everything sent
				if _, err := p.reader.Next(); err != nil {
					return
				}
			}
		}()
		for i := range 1000 {
			p.send(t, frame.Resize{Columns: uint16(i + 1), Rows: 2})
		}
		time.Sleep(time.Second)
		prog.mu.Lock()
		n, last := len(prog.sizes), prog.sizes[len(prog.sizes)-1]
		prog.mu.Unlock()
		if n > 3 || last.Columns != 1000 {
			t.Errorf("%d sizes were told, the last %+v", n, last)
		}
		p.send(t, frame.Bye{Code: "done"})
		run.end(t, "done")
	})
}
