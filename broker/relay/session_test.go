package relay_test

import (
	"bytes"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// write sends output from the node and waits until it is kept.
func (c *conn) write(at uint64, b string) {
	c.Helper()
	c.send(frame.Data{Offset: at, Bytes: []byte(b)})
	until(c, c.next, func(a frame.Ack) bool { return a.Taken == at+uint64(len(b)) })
}

func TestABrokenConnectionOfTheNodeIsReplaced(t *testing.T) {
	for _, over := range both {
		t.Run(over, func(t *testing.T) {
			s := newSite(t)
			o := s.attach(frame.Hello{})
			n, w := s.join(over, s.token, frame.Hello{})
			until[frame.Welcome](t, o.next, nil)
			n.send(frame.Ack{Limit: 1000})
			n.write(0, "before ")
			until(t, o.next, func(a frame.Ack) bool { return a.Limit == 1000 })
			o.send(frame.Data{Bytes: []byte("typed")})
			until[frame.Data](t, n.next, nil)
			n.close() // now only the relay has the typed input
			s.eventually("it is noted", func() bool { return must(s.db.TerminalSession(ctx, "ts-1"))(t).Status == broker.TerminalDetached })
			o.send(frame.Data{Offset: 5, Bytes: []byte(" blind")})

			n, w = s.join(over, w.Token, frame.Hello{Sent: 12})
			if w.Taken != 7 || w.Limit < 12 {
				t.Errorf("%+v", w)
			}
			n.send(frame.Ack{Limit: 1000}, frame.Data{Offset: 4, Bytes: []byte("re after")})
			for again := ""; again != "typed blind"; { // input that the node did not take comes again; the rest may still be in transit
				got := until[frame.Data](t, n.next, nil)
				if again += string(got.Bytes); int(got.Offset) != len(again)-len(got.Bytes) || !strings.HasPrefix("typed blind", again) {
					t.Fatalf("it hears %q, and then %+v", again, got)
				}
			}
			o.send(frame.Ack{Limit: 1000})
			heard := ""
			for heard != "before after" {
				d := until[frame.Data](t, o.next, nil)
				if int(d.Offset) != len(heard) {
					t.Fatalf("%+v after %q", d, heard)
				}
				heard += string(d.Bytes)
			}
			if err := s.relay.Close(ctx, "ts-1", "revoked", "the allocation has ended"); err != nil {
				t.Fatal(err)
			}
			s.ends("revoked")
			if s.recorded(recording.Output) != "before after" || s.recorded(recording.Input) != "typed blind" {
				t.Errorf("%q", s.recorded(recording.Output))
			}
		})
	}
}

// A connection ends when its successor has joined: the node knows first that the connection is
// dead.
func TestALaterConnectionTakesThePlaceOfTheFirst(t *testing.T) {
	s := newSite(t)
	n, w := s.join("quic", s.token, frame.Hello{})
	again, _ := s.join("tls", w.Token, frame.Hello{})
	if bye := byeOf(t, n.next); bye.Code != "connection_replaced" || !bye.Lasts {
		t.Errorf("%+v", bye)
	}
	again.write(0, "here")
}

func TestAnOperatorWhoComesBackSeesTheLastOfTheScreen(t *testing.T) {
	s := newSite(t)
	n, _ := s.join("quic", s.token, frame.Hello{})
	o := s.attach(frame.Hello{})
	until[frame.Welcome](t, o.next, nil)
	at, all := uint64(0), new(bytes.Buffer)
	_ = o.Close() // without an operator the output is still recorded
	for i := range 40 {
		line := strings.Repeat(string(rune('a'+i%26)), 8000)
		n.write(at, line)
		at += 8000
		all.WriteString(line)
	}
	o = s.attach(frame.Hello{})
	w := until[frame.Welcome](t, o.next, nil)
	if w.From < at-(64<<10) || w.From > at-(32<<10) {
		t.Errorf("he gets what comes after %d of %d", w.From, at)
	}
	o.send(frame.Ack{Taken: w.From, Limit: 1 << 20})
	seen := w.From
	for seen < at {
		d := until[frame.Data](t, o.next, nil)
		if d.Offset != seen || !bytes.Equal(d.Bytes, all.Bytes()[seen:seen+uint64(len(d.Bytes))]) {
			t.Fatalf("at %d comes %d", seen, d.Offset)
		}
		seen += uint64(len(d.Bytes))
	}
	// An operator who has a part of the output continues after that part.
	o = s.attach(frame.Hello{Taken: at - 10})
	if w := until[frame.Welcome](t, o.next, nil); w.From != at-10 {
		t.Errorf("%+v", w)
	}
	if s.recorded(recording.Output) != all.String() {
		t.Error("the recording is another")
	}
}

func TestASlowOperatorHoldsUpTheNode(t *testing.T) {
	s := newSite(t)
	o := s.attach(frame.Hello{})
	n, w := s.join("quic", s.token, frame.Hello{})
	until[frame.Welcome](t, o.next, nil)
	var out frame.Outflow
	_ = out.Acked(frame.Ack{Limit: w.Limit})
	for out.Room() > 0 {
		n.send(out.Add(make([]byte, frame.MaxData)))
	}
	if out.Sent() != 256<<10 {
		t.Errorf("%d bytes could be sent", out.Sent())
	}
	// All output is kept, and no more is allowed.
	until(t, n.next, func(a frame.Ack) bool {
		if a.Limit != 256<<10 {
			t.Fatalf("%+v, and nobody has taken anything", a)
		}
		return a.Taken == 256<<10
	})
	o.send(frame.Ack{Limit: 1000})
	until[frame.Data](t, o.next, nil)
	o.send(frame.Ack{Taken: 1000, Limit: 1000})
	until(t, n.next, func(a frame.Ack) bool { return a.Limit == 256<<10+1000 })
}

// The session of a killed side ends after its detach time, and nothing of it is left.
func TestASideThatIsKilledLeavesNothing(t *testing.T) {
	for name, kill := range map[string]func(s *site, n *conn, o *operator){
		"the node":     func(_ *site, n *conn, _ *operator) { n.close() },
		"the operator": func(_ *site, _ *conn, o *operator) { _ = o.Close() },
		"both":         func(_ *site, n *conn, o *operator) { n.close(); _ = o.Close() },
	} {
		for _, over := range both {
			t.Run(name+" over "+over, func(t *testing.T) {
				s := newSite(t)
				o := s.attach(frame.Hello{})
				n, _ := s.join(over, s.token, frame.Hello{})
				until[frame.Welcome](t, o.next, nil)
				n.write(0, "as far as this")
				kill(s, n, o)
				s.eventually("it is noted", func() bool { return must(s.db.TerminalSession(ctx, "ts-1"))(t).Status == broker.TerminalDetached })
				s.clock.Advance(time.Minute)
				code := "terminal_detached"
				var row broker.TerminalSession
				s.eventually("it is over", func() bool {
					row = must(s.db.TerminalSession(ctx, "ts-1"))(t)
					return row.Status == broker.TerminalClosed
				})
				if name == "the node" || name == "both" && row.EndCode != code { // with both gone, the code depends on which was missed first
					code = "terminal_node_gone"
				}
				s.ends(code)
				if s.recorded(recording.Output) != "as far as this" {
					t.Errorf("%q", s.recorded(recording.Output))
				}
			})
		}
	}
}

func TestTimeEndsASession(t *testing.T) {
	for code, c := range map[string]struct {
		limits broker.TerminalLimits
		after  time.Duration
		joins  bool
	}{
		"terminal_idle":            {broker.TerminalLimits{Idle: 20 * time.Minute}, 20 * time.Minute, true},
		"terminal_time_over":       {broker.TerminalLimits{Max: time.Hour, Idle: 2 * time.Hour}, time.Hour, true},
		"terminal_node_never_came": {broker.TerminalLimits{}, 2 * time.Minute, false},
	} {
		t.Run(code, func(t *testing.T) {
			s := newSiteWith(t, c.limits)
			o := s.attach(frame.Hello{})
			if c.joins {
				n, _ := s.join("quic", s.token, frame.Hello{})
				until[frame.Welcome](t, o.next, nil)
				n.send(frame.Ack{Limit: 1000})
				until(t, o.next, func(a frame.Ack) bool { return a.Limit == 1000 })
			}
			s.clock.Advance(c.after - time.Second)
			for range 3 { // some ticks pass
				o.send(frame.Ping{Nonce: 1})
				until[frame.Pong](t, o.next, nil)
			}
			s.clock.Advance(time.Second)
			if bye := byeOf(t, o.next); string(bye.Code) != code {
				t.Errorf("%+v", bye)
			}
			_ = o.Close()
			s.ends(code)
		})
	}
}

// A pressed key postpones the end.
func TestWhoTypesIsNotIdle(t *testing.T) {
	s := newSiteWith(t, broker.TerminalLimits{Idle: time.Minute})
	o := s.attach(frame.Hello{})
	n, _ := s.join("quic", s.token, frame.Hello{})
	until[frame.Welcome](t, o.next, nil)
	n.send(frame.Ack{Limit: 1000})
	until(t, o.next, func(a frame.Ack) bool { return a.Limit == 1000 })
	for i := range 5 {
		s.clock.Advance(50 * time.Second)
		o.send(frame.Data{Offset: uint64(i), Bytes: []byte("x")})
		until[frame.Data](t, n.next, nil)
	}
	s.clock.Advance(time.Minute)
	if bye := byeOf(t, o.next); bye.Code != "terminal_idle" {
		t.Errorf("%+v", bye)
	}
}

// A side that does not read does not delay the caller of Close.
func TestASessionIsClosedFromOutside(t *testing.T) {
	s := newSite(t)
	o := s.attach(frame.Hello{}) // never read
	n, _ := s.join("quic", s.token, frame.Hello{})
	n.write(0, "words")
	began := time.Now()
	closed := make(chan error, 1)
	go func() { closed <- s.relay.Close(ctx, "ts-1", "node_quarantined", "the node is quarantined") }()
	if bye := byeOf(t, n.next); bye.Code != "node_quarantined" || bye.Lasts {
		t.Errorf("%+v", bye)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	<-o.gone
	s.ends("node_quarantined")
	if err := s.relay.Close(ctx, "ts-1", "again", ""); broker.AsError(err).Code != "terminal_session_not_here" {
		t.Errorf("%v", err)
	}
	if err := s.relay.Attach("ts-1", "olga", frame.Hello{}, &operator{gone: make(chan struct{})}); broker.AsError(err).Code != "terminal_session_not_here" {
		t.Errorf("%v", err)
	}
}

func TestADeniedCertificateEndsItsConnections(t *testing.T) {
	for _, over := range both {
		s := newSite(t)
		n, _ := s.join(over, s.token, frame.Hello{})
		s.deny(s.node)
		if bye := byeOf(t, n.next); bye.Code != "certificate_denied" || bye.Lasts {
			t.Errorf("%+v", bye)
		}
		n.close()
		s.ends("certificate_denied")
	}
}

// The recording notes output that the node has dropped as lost, and the operator starts anew.
func TestOutputThatIsGoneIsSaidToBe(t *testing.T) {
	s := newSite(t)
	o := s.attach(frame.Hello{})
	n, w := s.join("quic", s.token, frame.Hello{})
	until[frame.Welcome](t, o.next, nil)
	n.write(0, "one")
	n, w = s.join("quic", w.Token, frame.Hello{From: 100, Sent: 100})
	if w.Taken != 100 {
		t.Errorf("%+v", w)
	}
	if bye := byeOf(t, o.next); bye.Code != "output_lost" || !bye.Lasts {
		t.Errorf("%+v", bye)
	}
	_ = o.Close()
	n.write(100, "two")
	o = s.attach(frame.Hello{})
	if w := until[frame.Welcome](t, o.next, nil); w.From != 100 {
		t.Errorf("%+v", w)
	}
	if r := s.verify(); r.Lost != 97 || r.Bytes != 103 || s.recorded(recording.Output) != "onetwo" {
		t.Errorf("%+v", r)
	}
}

// A node can neither withdraw recorded output nor acknowledge input that was never sent.
func TestANodeCannotGoOnFromElsewhere(t *testing.T) {
	for code, h := range map[taskcatalog.Code]frame.Hello{
		frame.CodeLost:        {Sent: 2},
		frame.CodeAckUnsent:   {Sent: 3, Taken: 1},
		frame.CodeBeyondLimit: {From: 1 << 20, Sent: 1 << 20}, // so that the bytes would count as lost
	} {
		s := newSite(t)
		n, w := s.join("quic", s.token, frame.Hello{})
		n.write(0, "one")
		n.close()
		n = s.dial("quic", s.node)
		h.Version, h.SessionID, h.Token = frame.Version, "ts-1", w.Token
		n.send(h)
		n.refused(code)
		s.ends(string(code))
		s.audited(string(code))
	}
}

// A relay that stops releases its session. The next relay continues the recording at the positions
// of both sides. The first relay, if still running, can no longer record.
func TestAnotherRelayGoesOn(t *testing.T) {
	s := newSite(t)
	n, w := s.join("quic", s.token, frame.Hello{})
	n.write(0, "first ")
	s.begin()
	if err := s.relay.Open(ctx, "ts-1", recording.Header{Width: 80, Height: 24}); err != nil {
		t.Fatal(err)
	}
	n.send(frame.Data{Offset: 6, Bytes: []byte("too late")})
	if bye := byeOf(t, n.next); bye.Code != "terminal_moved" || !bye.Lasts {
		t.Errorf("%+v", bye)
	}
	n.close()
	o := s.attach(frame.Hello{})
	n, w = s.join("quic", w.Token, frame.Hello{Taken: 40, Sent: 14})
	if w.Taken != 6 || w.From != 40 {
		t.Errorf("%+v", w)
	}
	if w := until[frame.Welcome](t, o.next, nil); w.Taken != 40 || w.From != 6 {
		t.Errorf("the operator has %+v", w)
	}
	n.write(6, "too late")
	if row := must(s.db.TerminalSession(ctx, "ts-1"))(t); row.Replica != s.addr || row.Status.Over() {
		t.Errorf("%+v", row)
	}
	s.closed()
	if row := must(s.db.TerminalSession(ctx, "ts-1"))(t); row.Status.Over() {
		t.Errorf("a relay that stops has closed it: %+v", row)
	}
	if r := s.verify(); !r.Intact || r.Complete || s.recorded(recording.Output) != "first too late" {
		t.Errorf("%+v: %q", r, s.recorded(recording.Output))
	}
}

func TestASessionIsOpenedOnce(t *testing.T) {
	s := newSite(t)
	h := recording.Header{Width: 80, Height: 24}
	for id, code := range map[string]string{"ts-1": "terminal_session_here", "ts-2": "terminal_session_not_found"} {
		if err := s.relay.Open(ctx, id, h); broker.AsError(err).Code != code {
			t.Errorf("%s: %v", id, err)
		}
	}
	must(s.db.CreateTerminalSession(ctx, admin, broker.TerminalSession{ID: "ts-2", NodeID: s.node.NodeID, NodeEpoch: 1}))(t)
	must(s.db.MoveTerminalSession(ctx, admin, "ts-2", store.TerminalMove{To: broker.TerminalClosed}))(t)
	if err := s.relay.Open(ctx, "ts-2", h); broker.AsError(err).Code != "terminal_session_over" {
		t.Errorf("%v", err)
	}
	s.closed()
	must(s.db.CreateTerminalSession(ctx, admin, broker.TerminalSession{ID: "ts-3", NodeID: s.node.NodeID, NodeEpoch: 1}))(t)
	if err := s.relay.Open(ctx, "ts-3", h); broker.AsError(err).Code != "relay_stopping" {
		t.Errorf("%v", err)
	}
}

// Bytes that arrive one by one are not separate events, neither in memory nor in the recording.
func TestBytesThatComeOneByOneAreOneEvent(t *testing.T) {
	s := newSite(t)
	n, _ := s.join("tls", s.token, frame.Hello{})
	n.write(0, "a")
	hold := make(chan struct{})
	s.shelf.set(nil, hold)
	frames := make([]frame.Frame, 3000)
	for i := range frames {
		frames[i] = frame.Data{Offset: uint64(i + 1), Bytes: []byte("b")}
	}
	n.send(frames...)
	n.send(frame.Ping{Nonce: 1})
	until[frame.Pong](t, n.next, nil)
	s.shelf.set(nil, nil)
	close(hold)
	until(t, n.next, func(a frame.Ack) bool { return a.Taken == 3001 })
	if last := must(s.db.LastBlock(ctx, "ts-1"))(t); last.Seq > 4 {
		t.Errorf("they make %d blocks", last.Seq)
	}
	if lines := s.lines(); len(lines) > 10 || s.recorded(recording.Output) != "a"+strings.Repeat("b", 3000) {
		t.Errorf("they make %d lines", len(lines))
	}
}

// A restarted relay knows no session at first: the session's own node may come again, and keeps its
// terminal. To other nodes, and once it is over, the session is not here.
func TestANodeMayComeAgainWhereItsRelayBeganAnew(t *testing.T) {
	s := newSite(t)
	_, w := s.join("quic", s.token, frame.Hello{})
	s.closed()
	s.begin()
	come := func(n pkitest.Node) frame.Bye {
		t.Helper()
		c := s.dial("quic", n)
		c.send(frame.Hello{Version: frame.Version, SessionID: "ts-1", Token: w.Token})
		return byeOf(t, c.next)
	}
	if bye := come(s.node); bye.Code != "terminal_session_elsewhere" || !bye.Lasts {
		t.Errorf("%+v", bye)
	}
	if bye := come(s.enroll("beta")); bye.Code != "terminal_session_not_here" || bye.Lasts {
		t.Errorf("another node: %+v", bye)
	}
	if err := s.relay.Open(ctx, "ts-1", recording.Header{Width: 80, Height: 24}); err != nil {
		t.Fatal(err)
	}
	if err := s.relay.Close(ctx, "ts-1", "node_quarantined", "the node is quarantined"); err != nil {
		t.Fatal(err)
	}
	s.eventually("the relay to have forgotten it", func() bool { return len(s.relay.Sessions()) == 0 })
	if bye := come(s.node); bye.Code != "terminal_session_not_here" || bye.Lasts {
		t.Errorf("after its end: %+v", bye)
	}
}

// A member's session ends when it has shown as much as it may. An operator's does not.
func TestAMemberShowsOnlySoMuch(t *testing.T) {
	for project, ends := range map[string]bool{"prj-1": true, "": false} { // empty: an operator's
		t.Run(project, func(t *testing.T) {
			s := newSite(t, func(c *relay.Config) { c.MemberOutput = 1000 })
			db := must(sql.Open("sqlite", strings.TrimPrefix(s.url, "sqlite:")))(t)
			must(db.ExecContext(ctx, `UPDATE terminal_sessions SET project_id = $1`, project))(t)
			must(0, db.Close())(t)
			o := s.attach(frame.Hello{})
			n, _ := s.join("quic", s.token, frame.Hello{})
			until[frame.Welcome](t, o.next, nil)
			n.send(frame.Ack{Limit: 1000})
			o.send(frame.Ack{Limit: 1 << 16})
			n.write(0, strings.Repeat("x", 1000))
			for i := range 4 { // some ticks pass
				o.send(frame.Ping{Nonce: uint64(i)})
				until[frame.Pong](t, o.next, nil)
			}
			n.write(1000, "x")
			if !ends {
				n.write(1001, strings.Repeat("x", 1000))
				return
			}
			if bye := byeOf(t, o.next); bye.Code != "terminal_output_over" {
				t.Errorf("%+v", bye)
			}
			_ = o.Close()
			s.ends("terminal_output_over")
		})
	}
}
