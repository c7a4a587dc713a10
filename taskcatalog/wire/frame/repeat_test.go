package frame_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// drive lets a repeat run for a while, and gives when it sent.
func drive(r *frame.Repeat, out *frame.Outflow, rtt time.Duration, from, until time.Time) (sent []time.Duration) {
	for now := from; now.Before(until); now = now.Add(time.Millisecond) {
		if part, _ := r.Next(now, out, rtt); len(part.Bytes) > 0 {
			sent = append(sent, now.Sub(from)/time.Millisecond)
		}
	}
	return sent
}

func allowing(t *testing.T, n uint64) *frame.Outflow {
	t.Helper()
	var out frame.Outflow
	if err := out.Acked(frame.Ack{Limit: n}); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestWhatIsNotAcknowledgedIsRepeatedAtGrowingPausesAndNotForEver(t *testing.T) {
	out, start := allowing(t, 1<<20), time.Unix(1000, 0)
	out.Add([]byte("x"))
	var r frame.Repeat
	if sent := drive(&r, out, 80*time.Millisecond, start, start.Add(time.Minute)); !slices.Equal(sent, []time.Duration{0, 20, 60, 140, 300, 620}) {
		t.Errorf("it was sent at %v ms", sent)
	}
	if err := out.Acked(frame.Ack{Taken: 1, Limit: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if sent := drive(&r, out, 0, start.Add(time.Minute), start.Add(2*time.Minute)); len(sent) > 0 {
		t.Errorf("what is acknowledged is sent at %v", sent)
	}
}

// What is more than a datagram is left to the stream, and no two go out within 10 ms.
func TestALotIsNotRepeated(t *testing.T) {
	out, start := allowing(t, 1<<20), time.Unix(1000, 0)
	var r frame.Repeat
	sent := 0
	for i := range 2000 {
		out.Add([]byte("x"))
		if part, _ := r.Next(start.Add(time.Duration(i)*time.Millisecond/2), out, 0); len(part.Bytes) > 0 {
			sent++
		}
	}
	if sent > 50 || sent < 10 {
		t.Errorf("of 2000 bytes in a second, %d datagrams were sent", sent)
	}
}
