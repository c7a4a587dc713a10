package terminal

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// The stream carries nothing; a keystroke and its echo pass all the same.
func TestAKeystrokeAndItsEchoPassByDatagramsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		r.datagrams = true
		run, prog := plays(r)
		p, _ := r.welcome(t, frame.Welcome{Limit: window, Repeats: true})
		p.to <- mustAppend(frame.Data{Offset: 1, Bytes: []byte("later")}) // out of order
		p.to <- mustAppend(frame.Data{Bytes: []byte("l")})
		p.to <- mustAppend(frame.Data{Bytes: []byte("ls")})
		synctest.Wait()
		if got := prog.input(); got != "ls" {
			t.Errorf("the program was told %q", got)
		}
		in := hears(window)
		var heard []byte
		for _, echo := range []string{"l", "s"} {
			prog.said <- []byte(echo)
			f, err := frame.Parse(<-p.from)
			ok(t, err)
			fresh, err := in.Take(f.(frame.Data))
			ok(t, err)
			heard = append(heard, fresh...)
		}
		if string(heard) != "ls" {
			t.Errorf("%q was heard", heard)
		}
		start := time.Now()
		for range 5 {
			<-p.from // again and again
		}
		if time.Since(start) > time.Second {
			t.Errorf("it took %s", time.Since(start))
		}
		p.to <- mustAppend(in.Allow(window))
		time.Sleep(5 * time.Second)
		if n := len(p.from); n > 0 {
			t.Errorf("%d datagrams came after the ack", n)
		}
		// The stream works again, and carries only what has not arrived yet.
		prog.said <- []byte("!")
		if f := await[frame.Data](t, p); f.Offset != 2 || string(f.Bytes) != "!" {
			t.Errorf("over the stream comes %+v", f)
		}
		run.stop()
		p.Close()
		run.end(t, CodeClosed)
	})
}

func TestWithoutAWordOfTheRelayNothingIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		r.datagrams = true
		run, prog := plays(r)
		p, _ := r.welcome(t, frame.Welcome{Limit: window})
		prog.said <- []byte("x")
		time.Sleep(5 * time.Second)
		if n := len(p.from); n > 0 {
			t.Errorf("%d datagrams came", n)
		}
		p.Close()
		run.stop()
		run.end(t, CodeClosed)
	})
}

func TestADatagramThatIsCutIsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		r.datagrams = true
		run, prog := plays(r)
		p, _ := r.welcome(t, frame.Welcome{Limit: window})
		p.to <- []byte{4, 0, 0, 0}
		p.to <- mustAppend(frame.Data{Bytes: []byte("ls")})
		synctest.Wait()
		if got := prog.input(); got != "ls" {
			t.Errorf("%q is typed", got)
		}
		run.stop()
		run.end(t, CodeClosed)
		p.Close()
	})
}

func TestADatagramThatIsNoFrameForItEndsTheSession(t *testing.T) {
	for name, c := range map[string]struct {
		raw  []byte
		code taskcatalog.Code
	}{
		"a signal":               {mustAppend(frame.Signal{Name: "KILL"}), CodeUnexpected},
		"an ack of what was not": {mustAppend(frame.Ack{Taken: 5, Limit: 5}), frame.CodeAckUnsent},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRelay()
				r.datagrams = true
				run, _ := plays(r)
				p, _ := r.welcome(t, frame.Welcome{Limit: window})
				p.to <- c.raw
				if bye := await[frame.Bye](t, p); bye.Code != c.code {
					t.Errorf("the bye is %+v, want %s", bye, c.code)
				}
				p.Close()
				run.end(t, c.code)
			})
		})
	}
}
