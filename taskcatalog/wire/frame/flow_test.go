package frame_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Whatever a bad link does with what is sent twice, once and not at all, the other side
// takes every byte once and in order, and nobody keeps more than was allowed.
func TestEveryByteIsTakenOnceAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		said := rapid.SliceOfN(rapid.Byte(), 1, 4000).Draw(t, "said")
		window := uint64(rapid.IntRange(1, 1500).Draw(t, "window"))
		var out frame.Outflow
		in, rest := frame.NewInflow(0), said
		var heard []byte
		var early []frame.Data // what a datagram may bring, whenever it likes
		take := func(f frame.Data, repeat bool) {
			fresh, err := in.Take(f)
			if err != nil && !(repeat && taskcatalog.CodeOf(err, "") == frame.CodeGap) {
				t.Fatal(err)
			}
			heard = append(heard, fresh...)
		}
		for ended := false; !ended; {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0: // more is said
				if n := min(out.Room(), len(rest)); n > 0 {
					f := out.Add(rest[:n])
					f.Bytes = bytes.Clone(f.Bytes)
					early, rest = append(early, f), rest[len(f.Bytes):]
				}
			case 1: // a datagram arrives, or once more
				if len(early) > 0 {
					take(early[rapid.IntRange(0, len(early)-1).Draw(t, "which")], true)
				}
			case 2: // a new connection, or the stream catches up
				frames, err := out.Resend(in.Taken())
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range frames {
					take(f, false)
				}
			case 3: // the other side says how far it is
				if err := out.Acked(in.Allow(window)); err != nil {
					t.Fatal(err)
				}
			case 4: // another relay, which does not know what the one before allowed
				in = frame.NewInflow(in.Taken())
				out.ResetLimit(in.Allow(uint64(rapid.IntRange(0, int(window)).Draw(t, "anew"))).Limit)
				early = nil
			}
			if ahead := out.Sent() - min(in.Taken(), out.Sent()); ahead > window {
				t.Fatalf("%d bytes are ahead of what is taken, and %d were allowed", ahead, window)
			}
			ended = len(rest) == 0 && in.Taken() == uint64(len(said))
		}
		if !bytes.Equal(heard, said) {
			t.Fatalf("%d bytes were said, %d heard", len(said), len(heard))
		}
		if done, err := in.End(frame.EOF{Offset: out.Sent()}); err != nil || !done || !in.Ended() {
			t.Fatalf("the end is %v (%v)", done, err)
		}
	})
}

func TestAFlowTakesNothingThatDoesNotFit(t *testing.T) {
	flow := func() *frame.Inflow {
		in := frame.NewInflow(10)
		in.Allow(5)
		return in
	}
	data := func(at uint64, s string) frame.Data { return frame.Data{Offset: at, Bytes: []byte(s)} }
	for name, c := range map[string]struct {
		do   func(*frame.Inflow) error
		code taskcatalog.Code
	}{
		"a gap":                   {func(in *frame.Inflow) error { _, err := in.Take(data(11, "a")); return err }, frame.CodeGap},
		"more than was allowed":   {func(in *frame.Inflow) error { _, err := in.Take(data(10, "abcdef")); return err }, frame.CodeBeyondLimit},
		"an end in what is there": {func(in *frame.Inflow) error { _, err := in.End(frame.EOF{Offset: 9}); return err }, frame.CodeAfterEnd},
		"bytes after the end": {func(in *frame.Inflow) error {
			_, _ = in.End(frame.EOF{Offset: 11})
			_, err := in.Take(data(10, "ab"))
			return err
		}, frame.CodeAfterEnd},
		"another end": {func(in *frame.Inflow) error {
			_, _ = in.End(frame.EOF{Offset: 11})
			_, err := in.End(frame.EOF{Offset: 12})
			return err
		}, frame.CodeAfterEnd},
		"an ack of what is not sent": {func(*frame.Inflow) error { return new(frame.Outflow).Acked(frame.Ack{Taken: 1, Limit: 9}) }, frame.CodeAckUnsent},
		"a peer that is ahead":       {func(*frame.Inflow) error { _, err := new(frame.Outflow).Resend(1); return err }, frame.CodeAckUnsent},
		"a peer that has forgotten": {func(*frame.Inflow) error {
			var out frame.Outflow
			if err := out.Acked(frame.Ack{Limit: 9}); err != nil {
				return err
			}
			out.Add([]byte("abc"))
			if err := out.Acked(frame.Ack{Taken: 2, Limit: 9}); err != nil {
				return err
			}
			_, err := out.Resend(1)
			return err
		}, frame.CodeLost},
	} {
		in := flow()
		if err := c.do(in); taskcatalog.CodeOf(err, "") != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
		if in.Taken() != 10 {
			t.Errorf("%s: %d bytes are taken", name, in.Taken())
		}
	}
	in := flow()
	if fresh, err := in.Take(data(8, "xxab")); err != nil || string(fresh) != "ab" {
		t.Errorf("of what overlaps, %q (%v) is new", fresh, err)
	}
	if fresh, err := in.Take(data(8, "xxab")); err != nil || fresh != nil {
		t.Errorf("of what was there, %q (%v) is new", fresh, err)
	}
	for at, want := range map[uint64]int{0: frame.MaxData, frame.MaxData: 5, frame.MaxData + 5: 0} {
		if f, err := outflow(t, frame.MaxData+5).Part(at); err != nil || f.Offset != at || len(f.Bytes) != want {
			t.Errorf("after %d come %d at %d (%v), want %d", at, len(f.Bytes), f.Offset, err, want)
		}
	}
	var none frame.Outflow
	if none.Room() != 0 {
		t.Errorf("before anything is allowed, there is room for %d", none.Room())
	}
}

// A relay acknowledges what is kept, and no more; and what it allows, it does not take back.
func TestARelayAcknowledgesWhatIsKept(t *testing.T) {
	in := frame.NewInflow(10)
	if a := in.Pass(10, 14); a != (frame.Ack{Taken: 10, Limit: 14}) {
		t.Fatalf("%+v", a)
	}
	if _, err := in.Take(frame.Data{Offset: 10, Bytes: []byte("abcd")}); err != nil {
		t.Fatal(err)
	}
	if a := in.Pass(12, 13); a != (frame.Ack{Taken: 12, Limit: 14}) {
		t.Errorf("%+v", a)
	}
	if a := in.Pass(99, 99); a.Taken != 14 {
		t.Errorf("bytes that never came are acknowledged: %+v", a)
	}
}

func TestAnotherRelayGoesOnWhereTheFirstWas(t *testing.T) {
	out := frame.NewOutflow(100)
	if out.Room() != 0 || out.From() != 100 || out.Sent() != 100 {
		t.Errorf("%d to %d, and room for %d", out.From(), out.Sent(), out.Room())
	}
	if err := out.Acked(frame.Ack{Taken: 100, Limit: 103}); err != nil || out.Limit() != 103 {
		t.Fatal(err)
	}
	if f := out.Add([]byte("abcdef")); f.Offset != 100 || string(f.Bytes) != "abc" {
		t.Errorf("%+v", f)
	}
	if _, err := out.Resend(99); taskcatalog.CodeOf(err, "") != frame.CodeLost {
		t.Errorf("bytes that are gone: %v", err)
	}
}

// outflow is one that keeps n bytes.
func outflow(t *testing.T, n int) *frame.Outflow {
	t.Helper()
	var out frame.Outflow
	if err := out.Acked(frame.Ack{Limit: uint64(n)}); err != nil {
		t.Fatal(err)
	}
	for out.Room() > 0 {
		out.Add(make([]byte, out.Room()))
	}
	return &out
}
