package relay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// A node whose connection broke after its Exit reconnects until its output is kept; then it is told
// not to come again.
func TestANodeMayComeAgainAfterItsExit(t *testing.T) {
	s := newSite(t)
	n, w := s.join("quic", s.token, frame.Hello{})
	hold := make(chan struct{})
	s.shelf.set(nil, hold)
	n.send(frame.Data{Bytes: []byte("last words")}, frame.EOF{Offset: 10}, frame.Exit{Status: 3})
	s.eventually("it is known", func() bool { return s.shelf.holds() })
	n.close()
	come := func() frame.Bye {
		again := s.dial("quic", s.node)
		again.send(frame.Hello{Version: frame.Version, SessionID: "ts-1", Token: w.Token, Sent: 10})
		bye := byeOf(t, again.next)
		again.close()
		return bye
	}
	if bye := come(); bye.Code != "terminal_exited" || !bye.Lasts || bye.Status == nil || *bye.Status != 3 {
		t.Errorf("before it is kept: %+v", bye)
	}
	s.shelf.set(nil, nil)
	close(hold)
	var bye frame.Bye
	s.eventually("it is kept", func() bool { bye = come(); return !bye.Lasts })
	if bye.Code != "terminal_exited" || *bye.Status != 3 {
		t.Errorf("%+v", bye)
	}
	if row := must(s.db.TerminalSession(ctx, "ts-1"))(t); row.Status.Over() {
		t.Errorf("it is %s before anybody has seen its end", row.Status)
	}
	s.noAttack()
}

// An exit status is stored as soon as it is known, even while the operator is connected, so a relay
// that dies does not lose the status.
func TestAnExitStatusIsKeptWhileTheOperatorIsThere(t *testing.T) {
	s := newSite(t)
	n, _ := s.join("quic", s.token, frame.Hello{})
	s.attach(frame.Hello{})
	n.exits("last words")
	s.eventually("it is kept", func() bool {
		row := must(s.db.TerminalSession(ctx, "ts-1"))(t)
		return row.ExitStatus != nil && *row.ExitStatus == 3 && !row.Status.Over()
	})
}

// No caller waits for a session that takes its time to end.
func TestASessionThatEndsSlowlyHoldsNobodyUp(t *testing.T) {
	s := newSite(t)
	n, _ := s.join("quic", s.token, frame.Hello{})
	hold := make(chan struct{})
	s.shelf.set(nil, hold)
	ended, asked := make(chan error, 1), make(chan error, 1)
	go func() { ended <- s.relay.Close(ctx, "ts-1", "terminal_closed", "") }()
	byeOf(t, n.next)
	go func() { asked <- s.relay.Release("ts-1") }()
	select {
	case err := <-asked:
		if broker.AsError(err).Code != "terminal_session_not_here" {
			t.Error(err)
		}
	case <-time.After(5 * time.Second): // half of the time that the end may take
		t.Error("whoever asks for it waits until it is over")
	}
	close(hold)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// exits ends the program of a session after some output.
func (c *conn) exits(written string) {
	c.Helper()
	c.send(frame.Data{Bytes: []byte(written)}, frame.EOF{Offset: uint64(len(written))}, frame.Exit{Status: 3})
	if bye := byeOf(c, c.next); bye.Code != "terminal_exited" || bye.Lasts || *bye.Status != 3 {
		c.Errorf("its node is told %+v", bye)
	}
	c.close()
}

// seesTheEnd receives the last of the screen and the exit status.
func (o *operator) seesTheEnd(want string) {
	o.Helper()
	at := until[frame.Welcome](o, o.next, nil).From
	o.send(frame.Ack{Taken: at, Limit: 1 << 20})
	heard := ""
	for {
		switch f := o.next().(type) {
		case frame.Data:
			heard += string(f.Bytes)
			o.send(frame.Ack{Taken: f.Offset + uint64(len(f.Bytes)), Limit: 1 << 20})
		case frame.Exit:
			if f.Status != 3 {
				o.Errorf("%+v", f)
			}
		case frame.Bye:
			if heard != want || f.Code != "terminal_exited" || f.Lasts || f.Status == nil || *f.Status != 3 {
				o.Errorf("he saw %q, and %+v", heard, f)
			}
			return
		}
	}
}

func TestAnOperatorWhoWasAwaySeesHowItEnded(t *testing.T) {
	s := newSite(t)
	n, _ := s.join("quic", s.token, frame.Hello{})
	n.exits("last words")
	s.clock.Advance(50 * time.Second)
	s.attach(frame.Hello{}).seesTheEnd("last words")
	s.ends("terminal_exited")
}

// Without an operator the exit waits this long, and the session ends as terminal_exited.
func TestWhatEndedIsKeptForTheDetachTime(t *testing.T) {
	s := newSite(t)
	n, _ := s.join("quic", s.token, frame.Hello{})
	n.exits("last words")
	s.eventually("how it ended is noted", func() bool { return must(s.db.TerminalSession(ctx, "ts-1"))(t).ExitStatus != nil })
	s.clock.Advance(time.Minute)
	if row := s.ends("terminal_exited"); *row.ExitStatus != 3 {
		t.Errorf("%+v", row)
	}
}

// An operator who returns at another relay gets at least the exit status.
func TestAnotherRelayKnowsHowItEnded(t *testing.T) {
	s := newSite(t)
	n, _ := s.join("quic", s.token, frame.Hello{})
	n.exits("last words")
	s.eventually("how it ended is noted", func() bool { return must(s.db.TerminalSession(ctx, "ts-1"))(t).ExitStatus != nil })
	first := s.relay
	s.begin()
	if err := s.relay.Open(ctx, "ts-1", recording.Header{Width: 80, Height: 24}); err != nil {
		t.Fatal(err)
	}
	if had := first.Sessions(); len(had) != 1 || had[0] != "ts-1" {
		t.Errorf("the first has %v", had)
	}
	if err := first.Release("ts-1"); err != nil {
		t.Fatal(err)
	}
	s.attach(frame.Hello{Taken: 10, Sent: 7}).seesTheEnd("")
	s.ends("terminal_exited")
}

// A slow reader of the last output gets all of it.
func TestASlowOperatorIsNotCutOff(t *testing.T) {
	s := newSite(t)
	o := s.attach(frame.Hello{})
	n, _ := s.join("quic", s.token, frame.Hello{})
	until[frame.Welcome](t, o.next, nil)
	n.exits(strings.Repeat("x", 10))
	for at := range uint64(10) {
		s.clock.Advance(4 * time.Second) // two of these are less than the time for each
		o.send(frame.Ack{Taken: at, Limit: at + 1})
		if d := until[frame.Data](t, o.next, nil); d.Offset != at {
			t.Fatalf("%+v", d)
		}
	}
	o.send(frame.Ack{Taken: 10, Limit: 10})
	until[frame.Exit](t, o.next, nil)
	if bye := byeOf(t, o.next); bye.Code != "terminal_exited" {
		t.Errorf("%+v", bye)
	}
	s.ends("terminal_exited")
}

// An operator who stops reading is disconnected, and may come back for the rest.
func TestLastWordsAreNotWaitedForWithoutEnd(t *testing.T) {
	s := newSiteWith(t, broker.TerminalLimits{})
	o := s.attach(frame.Hello{})
	n, _ := s.join("quic", s.token, frame.Hello{})
	until[frame.Welcome](t, o.next, nil)
	n.exits("last words")
	s.clock.Advance(9 * time.Second)
	o.send(frame.Ping{Nonce: 1})
	until[frame.Pong](t, o.next, nil)
	s.clock.Advance(time.Second)
	if bye := byeOf(t, o.next); bye.Code != "last_words_unread" || !bye.Lasts {
		t.Errorf("%+v", bye)
	}
	s.clock.Advance(9 * time.Minute)
	s.attach(frame.Hello{}).seesTheEnd("last words")
	s.ends("terminal_exited")
}
