package relay_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// waitsLong lets the relay wait longer than a test does.
func waitsLong(c *relay.Config) { c.GoneWithin = time.Hour }

// processGone tells the relay that the session's process is gone, without waiting for the end.
func (s *site) processGone() {
	s.Helper()
	told, done := context.WithCancel(ctx)
	done()
	_ = s.relay.Close(told, "ts-1", "terminal_gone", "its process was killed")
}

// The notice that a process is gone overtakes the last output. The output is kept and shown, and
// then the session ends.
func TestWhatAProcessWroteLastIsKeptThatIsGone(t *testing.T) {
	for _, over := range both {
		s := newSite(t, waitsLong)
		o := s.attach(frame.Hello{})
		n, _ := s.join(over, s.token, frame.Hello{})
		until[frame.Welcome](t, o.next, nil)
		o.send(frame.Ack{Limit: 1 << 20})
		s.processGone()
		n.write(0, "last words")
		if d := until[frame.Data](t, o.next, nil); string(d.Bytes) != "last words" {
			t.Errorf("%+v", d)
		}
		n.close()
		if bye := byeOf(t, o.next); bye.Code != "terminal_gone" {
			t.Errorf("%+v", bye)
		}
		s.ends("terminal_gone")
		if s.recorded(recording.Output) != "last words" || strings.Contains(s.recorded(recording.Marker), "may be missing") {
			t.Errorf("over %s: %q, %q", over, s.recorded(recording.Output), s.recorded(recording.Marker))
		}
	}
}

// Over QUIC nothing closes the connection of a killed process. The session still ends, and its
// recording notes that output may be missing.
func TestARecordingSaysThatItsLastWordsMayBeMissing(t *testing.T) {
	s := newSite(t)
	n, _ := s.join("quic", s.token, frame.Hello{})
	n.write(0, "words")
	s.processGone()
	if bye := byeOf(t, n.next); bye.Code != "terminal_gone" || bye.Lasts {
		t.Errorf("%+v", bye)
	}
	n.close()
	s.ends("terminal_gone")
	if said := s.recorded(recording.Marker); !strings.Contains(said, "may be missing") {
		t.Errorf("%q", said)
	}
}

// If the node is already away, there is nothing to wait for.
func TestASessionWhoseNodeIsAwayEndsAtOnceWhenItsProcessIsGone(t *testing.T) {
	s := newSite(t, waitsLong)
	n, _ := s.join("tls", s.token, frame.Hello{})
	n.write(0, "words")
	n.close()
	s.eventually("the node is away", func() bool { return !s.relay.AbsentSince("ts-1").IsZero() })
	s.processGone()
	s.ends("terminal_gone")
	if said := s.recorded(recording.Marker); strings.Contains(said, "may be missing") {
		t.Errorf("%q", said)
	}
}
