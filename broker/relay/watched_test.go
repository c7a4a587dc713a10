package relay_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// A program may begin and write before its operator has come. The program is held up, and the
// operator sees all output, even if that is more than a screenful.
func TestTheFirstOperatorSeesTheOutputFromItsBeginning(t *testing.T) {
	for name, before := range map[string]func(s *site){
		"nobody was there":            func(*site) {},
		"one left before the Welcome": func(s *site) { _ = s.attach(frame.Hello{}).Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			before(s)
			s.eventually("nobody is there", func() bool { return s.relay.Operator("ts-1") == "" })
			n, w := s.join("tls", s.token, frame.Hello{})
			var out frame.Outflow
			_ = out.Acked(frame.Ack{Limit: w.Limit})
			var all []byte
			for out.Room() > 0 {
				part := bytes.Repeat([]byte{byte('a' + len(all)/frame.MaxData)}, frame.MaxData)
				n.send(out.Add(part))
				all = append(all, part...)
			}
			until(t, n.next, func(a frame.Ack) bool {
				if a.Limit != 256<<10 {
					t.Fatalf("%+v, and nobody has seen anything", a)
				}
				return a.Taken == 256<<10
			})
			o := s.attach(frame.Hello{})
			if w := until[frame.Welcome](t, o.next, nil); w.From != 0 {
				t.Fatalf("he is shown what comes after %d", w.From)
			}
			o.send(frame.Ack{Limit: 1 << 20})
			for len(all) > 0 {
				d := until[frame.Data](t, o.next, nil)
				if !bytes.HasPrefix(all, d.Bytes) {
					t.Fatalf("at %d comes something else", d.Offset)
				}
				all = all[len(d.Bytes):]
			}
			o.send(frame.Ack{Taken: 256 << 10, Limit: 1 << 20})
			until(t, n.next, func(a frame.Ack) bool { return a.Limit >= 512<<10 })
			// Without the operator the program is no longer held up.
			_ = o.Close()
			line := strings.Repeat("z", 8000)
			for at := uint64(256 << 10); at < 1<<20; at += 8000 {
				n.write(at, line)
			}
		})
	}
}

// The screen of a returning operator is empty, so the node is told the size even if the size is the
// same.
func TestTheNodeIsToldTheSizeWhenAnOperatorComesBack(t *testing.T) {
	s := newSite(t)
	n, _ := s.join("quic", s.token, frame.Hello{})
	size := frame.Resize{Columns: 132, Rows: 50}
	told := func() {
		t.Helper()
		until(t, n.next, func(r frame.Resize) bool { return r == size })
	}
	o := s.attach(frame.Hello{})
	until[frame.Welcome](t, o.next, nil)
	o.send(size)
	told()
	for range 2 {
		_ = o.Close()
		o = s.attach(frame.Hello{})
		until[frame.Welcome](t, o.next, nil)
		o.send(size)
		told()
	}
	if got := s.recorded(recording.Resize); strings.Count(got, "132x50") > 1 {
		t.Errorf("%q is recorded", got)
	}
}

// After piped input has ended the program runs on. A later operator watches, and input from the
// later operator is dropped.
func TestInputAfterTheEndIsTakenAsNothing(t *testing.T) {
	s := newSite(t)
	n, w := s.join("quic", s.token, frame.Hello{})
	o := s.attach(frame.Hello{})
	until[frame.Welcome](t, o.next, nil)
	n.send(frame.Ack{Limit: 1000})
	until(t, o.next, func(a frame.Ack) bool { return a.Limit >= 1000 })
	o.send(frame.Data{Bytes: []byte("piped")})
	until[frame.Data](t, n.next, nil)
	o.send(frame.EOF{Offset: 5})
	if end := until[frame.EOF](t, n.next, nil); end.Offset != 5 {
		t.Errorf("%+v", end)
	}
	// Dropped input is not acknowledged before the node has taken the input before the end.
	o = s.attach(frame.Hello{})
	if w := until[frame.Welcome](t, o.next, nil); w.Taken != 5 || w.Limit < 8 {
		t.Fatalf("%+v", w)
	}
	o.send(frame.Data{Offset: 5, Bytes: []byte("ls\r")})
	o.send(frame.Ping{Nonce: 1})
	for pong := false; !pong; {
		switch f := o.next().(type) {
		case frame.Ack:
			if f.Taken > 0 {
				t.Errorf("%+v", f)
			}
		case frame.Pong:
			pong = true
		case frame.Bye:
			t.Fatalf("%+v", f)
		}
	}
	n.send(frame.Ack{Taken: 5, Limit: 1000})
	until(t, o.next, func(a frame.Ack) bool { return a.Taken == 8 && a.Limit > 8 })
	// Another pipe, with its own end. The node is told the end again and nothing else.
	o = s.attach(frame.Hello{})
	if w := until[frame.Welcome](t, o.next, nil); w.Taken != 8 {
		t.Fatalf("%+v", w)
	}
	o.send(frame.Data{Offset: 8, Bytes: []byte("more")})
	o.send(frame.EOF{Offset: 12})
	until(t, o.next, func(a frame.Ack) bool { return a.Taken == 12 })
	n.close()
	n, _ = s.join("quic", w.Token, frame.Hello{Taken: 5})
	n.send(frame.Ack{Taken: 5, Limit: 1000})
	for told := false; !told; {
		switch f := n.next().(type) {
		case frame.Data:
			t.Errorf("%q is forwarded", f.Bytes)
		case frame.EOF:
			if told = true; f.Offset != 5 {
				t.Errorf("%+v", f)
			}
		case frame.Bye:
			t.Fatalf("%+v", f)
		}
	}
	n.send(frame.Data{Bytes: []byte("to watch")})
	o.send(frame.Ack{Limit: 100})
	if d := until[frame.Data](t, o.next, nil); string(d.Bytes) != "to watch" {
		t.Errorf("%+v", d)
	}
	// A side must not send after its own end.
	o.send(frame.Data{Offset: 12, Bytes: []byte("x")})
	if bye := byeOf(t, o.next); bye.Code != frame.CodeAfterEnd {
		t.Errorf("%+v", bye)
	}
	if got := s.recorded(recording.Input); got != "piped" {
		t.Errorf("%q is recorded", got)
	}
}
