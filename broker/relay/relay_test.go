package relay_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

var both = []string{"quic", "tls"}

func TestASessionFromItsBeginningToItsEnd(t *testing.T) {
	for _, over := range both {
		t.Run(over, func(t *testing.T) {
			s := newSite(t)
			o := s.attach(frame.Hello{})
			n, w := s.join(over, s.token, frame.Hello{})
			if w.Limit != 256<<10 || w.Taken != 0 || w.Token == "" || w.Token == s.token {
				t.Errorf("%+v", w)
			}
			until[frame.Welcome](t, o.next, nil)
			o.send(frame.Ack{Limit: 1 << 20})
			n.send(frame.Ack{Limit: 100}, frame.Data{Bytes: []byte("$ ")})
			if d := until[frame.Data](t, o.next, nil); string(d.Bytes) != "$ " || d.Offset != 0 {
				t.Errorf("%+v", d)
			}
			until(t, n.next, func(a frame.Ack) bool { return a.Taken == 2 })
			o.send(frame.Ack{Taken: 2, Limit: 1 << 20})
			until(t, n.next, func(a frame.Ack) bool { return a.Limit == 2+256<<10 })
			o.send(frame.Resize{Columns: 100, Rows: 30})
			if r := until[frame.Resize](t, n.next, nil); r.Columns != 100 {
				t.Errorf("%+v", r)
			}
			o.send(frame.Data{Bytes: []byte("exit\r")})
			if d := until[frame.Data](t, n.next, nil); string(d.Bytes) != "exit\r" {
				t.Errorf("%+v", d)
			}
			n.send(frame.Ack{Taken: 5, Limit: 105})
			until(t, o.next, func(a frame.Ack) bool { return a == frame.Ack{Taken: 5, Limit: 105} })
			o.send(frame.Signal{Name: "INT"})
			until[frame.Signal](t, n.next, nil)
			o.send(frame.Ping{Nonce: 7})
			if p := until[frame.Pong](t, o.next, nil); p.Nonce != 7 {
				t.Errorf("%+v", p)
			}
			n.send(frame.Data{Offset: 2, Bytes: []byte("bye\r\n")}, frame.EOF{Offset: 7}, frame.Exit{Status: 3})
			until[frame.Data](t, o.next, nil)
			o.send(frame.Ack{Taken: 7, Limit: 1 << 20})
			until[frame.EOF](t, o.next, nil)
			if e := until[frame.Exit](t, o.next, nil); e.Status != 3 {
				t.Errorf("%+v", e)
			}
			if bye := byeOf(t, o.next); bye.Code != "terminal_exited" || bye.Lasts || bye.Status == nil || *bye.Status != 3 {
				t.Errorf("%+v", bye)
			}
			if bye := byeOf(t, n.next); bye.Code != "terminal_exited" {
				t.Errorf("%+v", bye)
			}
			n.close()
			if row := s.ends("terminal_exited"); row.ExitStatus == nil || *row.ExitStatus != 3 {
				t.Errorf("%+v", row)
			}
			if s.recorded(recording.Output) != "$ bye\r\n" || s.recorded(recording.Input) != "exit\r" || s.recorded(recording.Resize) != "100x30" {
				t.Errorf("%q, %q", s.recorded(recording.Output), s.recorded(recording.Input))
			}
		})
	}
}

// A relay neither shows nor acknowledges output that is not kept; a lasting failure ends the session.
func TestNothingIsShownThatIsNotKept(t *testing.T) {
	s := newSite(t)
	o := s.attach(frame.Hello{})
	n, _ := s.join("quic", s.token, frame.Hello{})
	until[frame.Welcome](t, o.next, nil)
	o.send(frame.Ack{Limit: 1 << 20})
	hold := make(chan struct{})
	s.shelf.set(nil, hold)
	n.send(frame.Data{Bytes: []byte("secret")})
	n.send(frame.Ping{Nonce: 1})
	until(t, func() frame.Frame {
		f := n.next()
		if _, ok := f.(frame.Ack); ok {
			t.Fatal("it is acknowledged")
		}
		return f
	}, func(p frame.Pong) bool { return p.Nonce == 1 })
	o.send(frame.Ping{Nonce: 2})
	until(t, func() frame.Frame {
		f := o.next()
		if _, ok := f.(frame.Data); ok {
			t.Fatal("it is shown")
		}
		return f
	}, func(p frame.Pong) bool { return p.Nonce == 2 })
	s.shelf.set(nil, nil)
	close(hold)
	if d := until[frame.Data](t, o.next, nil); string(d.Bytes) != "secret" {
		t.Errorf("%+v", d)
	}
	until(t, n.next, func(a frame.Ack) bool { return a.Taken == 6 })

	s.shelf.set(errAway, nil)
	n.send(frame.Data{Offset: 6, Bytes: []byte("never")})
	s.eventually("it is tried again, and in vain", func() bool { return s.shelf.failed() > 1 })
	s.clock.Advance(11 * time.Second)
	if bye := byeOf(t, o.next); bye.Code != "recording_failed" || bye.Lasts {
		t.Errorf("%+v", bye)
	}
	byeOf(t, n.next)
	n.close()
	s.leavesNothing()
	// Any relay that can end the recording closes the session.
	row := must(s.db.TerminalSession(ctx, "ts-1"))(t)
	if row.Status != broker.TerminalClosing || s.recorded(recording.Output) != "secret" || !s.verify().Intact {
		t.Errorf("%+v", row)
	}
	if err := s.relay.Reap(ctx, "ts-1", "relay_lost", "nobody has it"); err == nil {
		t.Error("it is reaped while nothing can be kept")
	}
	s.shelf.set(nil, nil)
	if err := s.relay.Reap(ctx, "ts-1", "relay_lost", "nobody has it"); err != nil {
		t.Fatal(err)
	}
	s.ends("recording_failed")
}
