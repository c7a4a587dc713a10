package relay_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// The wait for the rest of a character is short, so bytes that form no character are shown, too.
func TestBytesThatAreNoCharacterAreShown(t *testing.T) {
	for name, c := range map[string]struct {
		after func(s *site, n *conn)
		ends  bool
	}{
		"after a while":       {after: func(s *site, _ *conn) { s.clock.Advance(50 * time.Millisecond) }},
		"at the end of it":    {after: func(_ *site, n *conn) { n.send(frame.EOF{Offset: 3}) }},
		"with what comes":     {after: func(_ *site, n *conn) { n.send(frame.Data{Offset: 3, Bytes: []byte("b")}) }},
		"as its program ends": {after: func(_ *site, n *conn) { n.send(frame.Exit{}) }, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			o := s.attach(frame.Hello{})
			n, _ := s.join("quic", s.token, frame.Hello{})
			until[frame.Welcome](t, o.next, nil)
			o.send(frame.Ack{Limit: 100})
			n.send(frame.Data{Bytes: []byte("a\xe2\x82")})
			if d := until[frame.Data](t, o.next, nil); string(d.Bytes) != "a" {
				t.Errorf("%q is shown, and not kept as it is", d.Bytes)
			}
			c.after(s, n)
			if d := until[frame.Data](t, o.next, nil); string(d.Bytes[:2]) != "\xe2\x82" {
				t.Errorf("%q", d.Bytes)
			}
			if c.ends {
				o.send(frame.Ack{Taken: 3, Limit: 100})
				until[frame.Exit](t, o.next, nil)
			}
		})
	}
}

// An event's time is the arrival time of its bytes, however long keeping them takes.
func TestARecordingHasTheTimesOfTheTerminal(t *testing.T) {
	s := newSite(t)
	n, _ := s.join("quic", s.token, frame.Hello{})
	n.write(0, "a")
	hold := make(chan struct{})
	s.shelf.set(nil, hold)
	for at := range uint64(3) {
		s.clock.Advance(time.Second)
		n.send(frame.Data{Offset: 1 + at, Bytes: []byte("b")}, frame.Ping{Nonce: at})
		until[frame.Pong](t, n.next, nil)
	}
	s.clock.Advance(5 * time.Second)
	s.shelf.set(nil, nil)
	close(hold)
	until(t, n.next, func(a frame.Ack) bool { return a.Taken == 4 })
	var times []time.Duration
	for _, line := range s.lines() {
		if e := must(recording.ParseEvent(line))(t); e.Kind == recording.Output {
			times = append(times, e.After)
		}
	}
	if len(times) != 4 || times[1]-times[0] != time.Second || times[2]-times[1] != time.Second || times[3]-times[2] != time.Second {
		t.Errorf("%v", times)
	}
}

// The node gets acknowledgements of much output together, and of the answer to a key at once.
func TestTheNodeIsToldOfMuchOutputTogether(t *testing.T) {
	s := newSite(t, func(c *relay.Config) { c.Tick = time.Hour })
	o := s.attach(frame.Hello{})
	n, _ := s.join("quic", s.token, frame.Hello{})
	until[frame.Welcome](t, o.next, nil)
	o.send(frame.Ack{Limit: 1 << 20})
	at := uint64(0)
	shows := func(bytes int) { // output is shown only after it was kept
		n.send(frame.Data{Offset: at, Bytes: make([]byte, bytes)})
		at += uint64(bytes)
		until(t, o.next, func(d frame.Data) bool { return d.Offset+uint64(len(d.Bytes)) == at })
	}
	shows(frame.MaxData)
	n.send(frame.Ping{Nonce: 1})
	for told := true; told; {
		switch f := n.next().(type) {
		case frame.Ack:
			t.Errorf("%+v, for %d bytes", f, at)
		case frame.Pong:
			told = false
		}
	}
	shows(frame.MaxData)
	until(t, n.next, func(a frame.Ack) bool { return a.Taken == at })
	shows(1)
	until(t, n.next, func(a frame.Ack) bool { return a.Taken == at })
}

// Input is held up while it cannot be recorded. A hanging store therefore fills no memory, and ends
// the session if it hangs for long.
func TestInputThatIsNotKeptIsHeldUp(t *testing.T) {
	s := newSite(t)
	o := s.attach(frame.Hello{})
	n, _ := s.join("quic", s.token, frame.Hello{})
	until[frame.Welcome](t, o.next, nil)
	n.send(frame.Ack{Limit: 1 << 30})
	const window = 64 << 10
	at, taken := uint64(0), uint64(0)
	typed := func(to uint64) {
		for ; at < to; at += frame.MaxData {
			o.send(frame.Data{Offset: at, Bytes: make([]byte, frame.MaxData)})
		}
	}
	takes := func(to uint64) {
		t.Helper()
		for taken < to {
			d := until[frame.Data](t, n.next, nil)
			taken = d.Offset + uint64(len(d.Bytes))
			n.send(frame.Ack{Taken: taken, Limit: 1 << 30})
		}
	}
	until(t, o.next, func(a frame.Ack) bool { return a.Limit == window })
	typed(window)
	takes(window) // all of this input is kept
	until(t, o.next, func(a frame.Ack) bool { return a.Limit == 2*window })
	hold := make(chan struct{})
	s.shelf.set(nil, hold)
	typed(2 * window) // nothing of this input is kept
	o.send(frame.Ping{Nonce: 1})
	for pong := false; !pong; {
		switch f := o.next().(type) {
		case frame.Ack:
			if f.Limit > 2*window || f.Taken > window {
				t.Fatalf("%+v, and nothing is kept", f)
			}
		case frame.Pong:
			pong = true
		}
	}
	s.shelf.set(nil, nil)
	close(hold)
	takes(2 * window)
	until(t, o.next, func(a frame.Ack) bool { return a.Limit == 3*window })
	s.shelf.set(errAway, nil)
	typed(2*window + 1)
	s.eventually("it is tried again, and in vain", func() bool { return s.shelf.failed() > 1 })
	s.clock.Advance(11 * time.Second)
	if bye := byeOf(t, o.next); bye.Code != "recording_failed" {
		t.Errorf("%+v", bye)
	}
}

// A program never gets input that the recording lacks, however its relay ends: the operator sends
// such input again, to the next relay.
func TestInputThatIsNotKeptIsNotForwarded(t *testing.T) {
	s := newSite(t)
	o := s.attach(frame.Hello{})
	n, w := s.join("quic", s.token, frame.Hello{})
	until[frame.Welcome](t, o.next, nil)
	n.send(frame.Ack{Limit: 1000})
	until(t, o.next, func(a frame.Ack) bool { return a.Limit == 1000 })
	hold := make(chan struct{})
	defer close(hold)
	s.shelf.set(nil, hold)
	o.send(frame.Data{Bytes: []byte("rm -rf x\r")})
	o.send(frame.EOF{Offset: 9})
	s.eventually("it waits to be kept", s.shelf.holds)
	n.send(frame.Ping{Nonce: 7})
	for pong := false; !pong; {
		switch f := n.next().(type) {
		case frame.Data, frame.EOF:
			t.Errorf("%+v is forwarded", f)
		case frame.Pong:
			pong = true
		}
	}
	o.drain(nil)
	s.closed()
	s.begin()
	if err := s.relay.Open(ctx, "ts-1", recording.Header{Width: 80, Height: 24}); err != nil {
		t.Fatal(err)
	}
	n, _ = s.join("quic", w.Token, frame.Hello{})
	n.send(frame.Ack{Limit: 1000})
	o = s.attach(frame.Hello{Sent: 9})
	again := until[frame.Welcome](t, o.next, nil)
	if again.Taken != 0 {
		t.Errorf("%+v", again)
	}
	if again.Limit != 1000 { // the node's Ack came after the operator
		until(t, o.next, func(a frame.Ack) bool { return a.Limit == 1000 })
	}
	o.send(frame.Data{Bytes: []byte("rm -rf x\r")})
	o.send(frame.EOF{Offset: 9})
	if d := until[frame.Data](t, n.next, nil); string(d.Bytes) != "rm -rf x\r" {
		t.Errorf("%q", d.Bytes)
	}
	until[frame.EOF](t, n.next, nil)
	if got := s.recorded(recording.Input); got != "rm -rf x\r" {
		t.Errorf("%q is recorded", got)
	}
}

// A side that does not answer a Ping is disconnected, over either protocol, and may come again.
func TestASideThatSaysNothingIsLetGoOf(t *testing.T) {
	const dead = 300 * time.Millisecond
	quick := func(c *relay.Config) { c.DeadAfter = dead }
	for _, over := range both {
		s := newSite(t, quick)
		o := s.attach(frame.Hello{})
		n, w := s.join(over, s.token, frame.Hello{})
		until[frame.Welcome](t, o.next, nil)
		// The operator answers for longer than dead; the node gets a Ping and does not answer.
		began := time.Now()
		for told := false; !told; {
			switch f := o.next().(type) {
			case frame.Ping:
				o.send(frame.Pong(f))
			case frame.State:
				told = f.Node == frame.NodeAway
			}
		}
		if took := time.Since(began); took < dead*9/10 {
			t.Errorf("it was let go of in %v", took)
		}
		until[frame.Ping](t, n.next, nil)
		if bye := byeOf(t, n.next); bye.Code != "connection_lost" || !bye.Lasts {
			t.Errorf("%+v", bye)
		}
		n, _ = s.join(over, w.Token, frame.Hello{})
		answering := make(chan struct{})
		go func() {
			defer close(answering)
			for {
				f, err := n.reader.Next()
				if err != nil {
					return
				}
				if p, ok := f.(frame.Ping); ok {
					raw, _ := frame.Append(nil, frame.Pong(p))
					_, _ = n.Write(raw)
				}
			}
		}()
		// Now the operator is silent.
		if bye := byeOf(t, o.next); bye.Code != "connection_lost" || !bye.Lasts {
			t.Errorf("%+v", bye)
		}
		if state := must(s.relay.State("ts-1"))(t); state.Node != frame.NodeHere {
			t.Errorf("%+v", state)
		}
		n.close()
		<-answering
		s.noAttack()
	}
}

// Some frames without news are normal after a break; many are an attack.
func TestFramesThatBringNothingAreAFlood(t *testing.T) {
	for name, f := range map[string]frame.Frame{
		"the same bytes":  frame.Data{Bytes: []byte("a")},
		"the same Ack":    frame.Ack{},
		"growing Limits":  nil,
		"bytes of before": frame.Data{Bytes: []byte("a"), Offset: 0},
	} {
		for _, over := range both {
			t.Run(name+" over "+over, func(t *testing.T) {
				s := newSite(t)
				n, _ := s.join(over, s.token, frame.Hello{})
				n.write(0, "a")
				flood := make([]frame.Frame, 4100)
				for i := range flood {
					if flood[i] = f; f == nil {
						flood[i] = frame.Ack{Limit: uint64(i)}
					}
				}
				n.send(flood...)
				n.refused("frame_flood")
				s.ends("frame_flood")
				s.audited("frame_flood")
			})
		}
	}
}

func TestAnOperatorsFloodCostsHimHisConnection(t *testing.T) {
	s := newSite(t)
	s.join("quic", s.token, frame.Hello{})
	o := s.attach(frame.Hello{})
	until[frame.Welcome](t, o.next, nil)
	told := make(chan frame.Bye, 1)
	o.drain(told)
	for range 4001 {
		o.send(frame.Ack{})
	}
	if bye := <-told; bye.Code != "frame_flood" || !bye.Lasts {
		t.Errorf("%+v", bye)
	}
}

// An operator who takes a whole window within a moment gets a larger window, and a smaller one
// again when slow.
func TestAQuickOperatorGetsALargerWindow(t *testing.T) {
	s := newSite(t)
	o := s.attach(frame.Hello{})
	n, w := s.join("tls", s.token, frame.Hello{})
	until[frame.Welcome](t, o.next, nil)
	var out frame.Outflow
	_ = out.Acked(frame.Ack{Limit: w.Limit})
	// took sends all output that the window allows, lets the operator take it in steps, and returns
	// the resulting window.
	took := func(step uint64, pause time.Duration) uint64 {
		t.Helper()
		at := out.Sent()
		for out.Room() > 0 {
			n.send(out.Add(make([]byte, frame.MaxData)))
		}
		o.send(frame.Ack{Taken: at, Limit: 1 << 30})
		for shown := at; shown < out.Sent(); {
			shown += uint64(len(until[frame.Data](t, o.next, nil).Bytes))
		}
		for at < out.Sent() {
			s.clock.Advance(pause)
			at = min(at+step, out.Sent())
			o.send(frame.Ack{Taken: at, Limit: 1 << 30})
		}
		o.send(frame.Ping{Nonce: at})
		until(t, o.next, func(p frame.Pong) bool { return p.Nonce == at })
		until(t, n.next, func(a frame.Ack) bool {
			_ = out.Acked(a)
			return a.Taken == at && a.Limit >= at+256<<10
		})
		return out.Limit() - at
	}
	for _, want := range []uint64{512 << 10, 1 << 20, 1 << 20} {
		if got := took(1<<30, 0); got != want {
			t.Errorf("he who takes all at once has %d KiB, want %d", got>>10, want>>10)
		}
	}
	if got := took(64<<10, time.Second); got != 256<<10 {
		t.Errorf("he who is slow has %d KiB", got>>10)
	}
}
