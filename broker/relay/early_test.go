package relay_test

import (
	"testing"

	"github.com/quic-go/quic-go"

	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

func (c *conn) datagram(f frame.Frame) {
	c.Helper()
	if err := c.quic.SendDatagram(must(frame.Append(nil, f))(c)); err != nil {
		c.Fatal(err)
	}
}

// Bytes of a datagram are taken once, even if the stream carried or repeats them.
func TestOutputComesEarly(t *testing.T) {
	s := newSite(t)
	o := s.attach(frame.Hello{})
	n, w := s.join("quic", s.token, frame.Hello{})
	if !w.Repeats {
		t.Fatalf("%+v", w)
	}
	until[frame.Welcome](t, o.next, nil)
	o.send(frame.Ack{Limit: 100})
	n.datagram(frame.Data{Offset: 5, Bytes: []byte("out of its turn")})
	n.datagram(frame.Data{Bytes: []byte("ear")})
	n.datagram(frame.Data{Bytes: []byte("early")})
	until(t, n.next, func(a frame.Ack) bool { return a.Taken == 5 })
	n.send(frame.Data{Bytes: []byte("early")}) // the stream carries these bytes, too
	n.write(5, " and late")
	heard := ""
	for len(heard) < 14 {
		heard += string(until[frame.Data](t, o.next, nil).Bytes)
	}
	if heard != "early and late" {
		t.Errorf("%q", heard)
	}
	s.noAttack()
}

// Input goes out as a datagram as well, until it is acknowledged.
func TestInputGoesEarly(t *testing.T) {
	s := newSite(t)
	o := s.attach(frame.Hello{})
	n, _ := s.join("quic", s.token, frame.Hello{})
	until[frame.Welcome](t, o.next, nil)
	n.send(frame.Ack{Limit: 100})
	until(t, o.next, func(a frame.Ack) bool { return a.Limit == 100 })
	o.send(frame.Data{Bytes: []byte("ls")})
	for range 2 { // repeated, because nothing is acknowledged
		f := must(frame.Parse(must(n.quic.ReceiveDatagram(ctx))(t)))(t)
		if d, ok := f.(frame.Data); !ok || d.Offset != 0 || string(d.Bytes) != "ls" {
			t.Errorf("%+v", f)
		}
	}
	if d := until[frame.Data](t, n.next, nil); string(d.Bytes) != "ls" {
		t.Errorf("over the stream comes %+v", d)
	}
	n.send(frame.Ack{Taken: 2, Limit: 100})
	until(t, o.next, func(a frame.Ack) bool { return a.Taken == 2 })
}

// A connection without datagrams gets no early repeats.
func TestATransportWithoutDatagramsRepeatsNothing(t *testing.T) {
	s := newSite(t)
	_, w := s.join("tls", s.token, frame.Hello{})
	if w.Repeats {
		t.Errorf("%+v", w)
	}
	plain := s.dialWith("quic", s.node, &quic.Config{MaxIncomingStreams: -1})
	plain.send(frame.Hello{Version: frame.Version, SessionID: "ts-1", Token: w.Token})
	if w := until[frame.Welcome](t, plain.next, nil); w.Repeats {
		t.Errorf("%+v", w)
	}
}

// A datagram that is no Data of this direction is an attack, as over the stream.
func TestADatagramThatIsNoneIsAnAttack(t *testing.T) {
	for code, f := range map[string]frame.Frame{
		"frame_unexpected":   frame.Exit{},
		"frame_beyond_limit": frame.Data{Offset: 0, Bytes: make([]byte, 1000)},
	} {
		s := newSite(t)
		s.attach(frame.Hello{}).drain(nil) // an operator who takes nothing: there is a limit
		n, w := s.join("quic", s.token, frame.Hello{})
		if d, ok := f.(frame.Data); ok {
			for d.Offset+uint64(len(d.Bytes)) <= w.Limit {
				n.write(d.Offset, string(d.Bytes))
				d.Offset += uint64(len(d.Bytes))
			}
			f = d
		}
		n.datagram(f)
		s.ends(code)
		s.audited(code)
	}
}

// A truncated datagram is ignored, because the stream carries its bytes. Such datagrams are read at
// a limited rate.
func TestADatagramThatIsCutIsNothing(t *testing.T) {
	s := newSite(t)
	o := s.attach(frame.Hello{})
	n, _ := s.join("quic", s.token, frame.Hello{})
	until[frame.Welcome](t, o.next, nil)
	o.send(frame.Ack{Limit: 100})
	for range 500 {
		if err := n.quic.SendDatagram([]byte{77, 0, 0, 0}); err != nil {
			t.Fatal(err)
		}
	}
	n.write(0, "over the stream")
	if got := until[frame.Data](t, o.next, nil); string(got.Bytes) != "over the stream" {
		t.Errorf("%q", got.Bytes)
	}
	s.noAttack()
}

// A datagram that arrives after the end is ignored.
func TestADatagramAfterTheEndIsNothing(t *testing.T) {
	s := newSite(t)
	n, _ := s.join("quic", s.token, frame.Hello{})
	hold := make(chan struct{})
	s.shelf.set(nil, hold)
	n.send(frame.Data{Bytes: []byte("ab")}, frame.Exit{})
	s.eventually("it is to be kept", s.shelf.holds)
	n.datagram(frame.Data{Bytes: []byte("a")})
	n.datagram(frame.Data{Offset: 1, Bytes: []byte("b")})
	s.shelf.set(nil, nil)
	close(hold)
	if bye := byeOf(t, n.next); bye.Code != "terminal_exited" {
		t.Errorf("%+v", bye)
	}
	s.noAttack()
}
