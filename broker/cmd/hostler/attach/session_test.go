package attach

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

func TestASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		c := s.join()
		until(c, func(r frame.Resize) bool { return r.Columns == 80 && r.Rows == 24 })
		until(c, func(a frame.Ack) bool { return a == frame.Ack{Limit: window} })
		c.send(frame.Data{Bytes: []byte("$ \x1b]0;owned\a")})
		until(c, func(a frame.Ack) bool { return a == frame.Ack{Taken: 12, Limit: 12 + window} })
		s.keyed("exit 3\r")
		if got := c.data(); got != "exit 3\r" {
			t.Errorf("%q", got)
		}
		c.send(frame.Ack{Taken: 7, Limit: 100}, frame.Data{Offset: 12, Bytes: []byte("exit\r\n")}, frame.EOF{Offset: 18}, frame.Exit{Status: 3}, frame.Bye{Code: "terminal_exited", Status: status(3)})
		if e := s.over(); s.err != nil || e.Code != "terminal_exited" || e.Status == nil || *e.Status != 3 || e.Left || e.Asked {
			t.Errorf("%+v, %v", e, s.err)
		}
		if got := s.out.String(); got != "$ exit\r\n"+put {
			t.Errorf("%q", got)
		}
		if s.notes.String() != "" || s.closed != 0 {
			t.Errorf("%q", s.notes.String())
		}
	})
}

// The answer to a key is acknowledged at once. Bulk output is acknowledged in large parts, and the
// rest with the next tick.
func TestMuchOutputIsAcknowledgedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		c := s.join()
		until(c, func(r frame.Resize) bool { return true })
		until(c, func(a frame.Ack) bool { return a == frame.Ack{Limit: window} })
		at := uint64(0)
		shows := func(n int) {
			c.send(frame.Data{Offset: at, Bytes: bytes.Repeat([]byte("y"), n)})
			at += uint64(n)
		}
		acked := func() bool {
			return until(c, func(frame.Ack) bool { return true }) == frame.Ack{Taken: at, Limit: at + window}
		}
		began := time.Now()
		shows(1)
		if !acked() || time.Since(began) > 0 {
			t.Errorf("one byte is not acknowledged at once")
		}
		shows(frame.MaxData)
		synctest.Wait()
		select {
		case f := <-c.from:
			t.Errorf("%+v, for %d bytes", f, frame.MaxData)
		default:
		}
		if !acked() || time.Since(began) != tick {
			t.Errorf("what is left is acknowledged after %s", time.Since(began))
		}
		began = time.Now()
		for range window / 8 / frame.MaxData {
			shows(frame.MaxData)
		}
		if !acked() || time.Since(began) > 0 {
			t.Errorf("an eighth of the window is not acknowledged at once")
		}
		c.send(frame.Bye{Code: "terminal_closed"})
		s.over()
	})
}

// A terminal that accepts nothing makes the relay stop, and delays no key; the escapes work.
func TestAStoppedTerminalFillsNoMemoryAndHoldsNoKeyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		s := start(t, func(s *side) { s.out.hold = hold })
		c := s.join()
		limit := until(c, func(a frame.Ack) bool { return true }).Limit
		chunk := bytes.Repeat([]byte("y\n"), frame.MaxData/2)
		sent := uint64(0)
		for ; sent+frame.MaxData <= limit; sent += frame.MaxData {
			c.send(frame.Data{Offset: sent, Bytes: chunk})
		}
		if sent > window {
			t.Errorf("%d bytes are allowed before any is written", sent)
		}
		s.keyed("\x03")
		if got := c.data(); got != "\x03" {
			t.Errorf("%q", got)
		}
		// No more is allowed while nothing is written.
		synctest.Wait()
		select {
		case f := <-c.from:
			if a, ok := f.(frame.Ack); ok && a.Limit > limit {
				t.Errorf("%+v", f)
			}
		default:
		}
		s.keyed("\r~.")
		if b, ok := c.next().(frame.Bye); !ok || b.Lasts {
			t.Errorf("%+v", b)
		}
		c.send(frame.Bye{Code: "terminal_operator_ended"})
		if e := s.over(); !e.Asked || e.Left || s.closed != 0 {
			t.Errorf("%+v, %d", e, s.closed)
		}
		close(hold)
	})
}

// Typed bytes that the node has not taken are bounded. A program that reads nothing does not hide
// the escapes.
func TestAProgramThatReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		c, _ := s.accept()
		c.send(frame.Welcome{Version: frame.Version, Limit: 10})
		s.keyed(strings.Repeat("x", 4096))
		if got := c.data(); got != "xxxxxxxxxx" {
			t.Errorf("%q", got)
		}
		s.keyed("\r~d")
		if b, ok := c.next().(frame.Bye); !ok || !b.Lasts {
			t.Errorf("%+v", b)
		}
		c.send(frame.Bye{Code: "connection_lost", Lasts: true})
		if e := s.over(); !e.Left || s.closed != 0 {
			t.Errorf("%+v", e)
		}
	})
	synctest.Test(t, func(t *testing.T) { // and a keyboard is not read without end
		s := start(t, func(s *side) { s.Keyboard = false })
		c, _ := s.accept()
		c.send(frame.Welcome{Version: frame.Version, Limit: 10})
		read := 0
		go func() {
			for {
				n, err := s.keyboard.Write(make([]byte, 4096))
				if read += n; err != nil {
					return
				}
			}
		}()
		c.data()
		synctest.Wait()
		if read > maxTyped+3*4096 {
			t.Errorf("%d bytes are read that nobody takes", read)
		}
		s.stop()
		if b, ok := c.next().(frame.Bye); !ok || b.Lasts {
			t.Errorf("%+v", b)
		}
		c.send(frame.Bye{Code: "terminal_operator_ended"})
		s.over()
	})
}

func TestInputThatIsNoKeyboardHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(s *side) { s.Keyboard, s.Screen = false, false })
		c := s.join()
		s.keyed("~.\nabc")
		if got := c.data(); got != "~.\nabc" {
			t.Errorf("%q: escapes are for people", got)
		}
		s.keyboard.Close() //nolint:errcheck // as a pipe ends
		if f, ok := c.next().(frame.EOF); !ok || f.Offset != 6 {
			t.Errorf("%+v", f)
		}
		_ = c.Close() // and again after a break
		c, _ = s.accept()
		c.send(frame.Welcome{Version: frame.Version, Taken: 6, Limit: 100})
		if f, ok := c.next().(frame.EOF); !ok || f.Offset != 6 {
			t.Errorf("%+v", f)
		}
		c.send(frame.Data{Bytes: []byte("done\r\n")}, frame.Exit{Status: 143, Signal: "TERM"}, frame.Bye{Code: "terminal_exited", Status: status(143)})
		if e := s.over(); *e.Status != 143 || e.Signal != "TERM" || s.out.String() != "done\r\n" {
			t.Errorf("%+v %q", e, s.out.String())
		}
		if got := s.notes.String(); strings.Contains(got, "\r") {
			t.Errorf("%q", got)
		}
	})
}

func TestTheEscapesEndOrLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		c := s.join()
		s.keyed("~?")
		s.keyed("~~\r")
		if got := c.data(); got != "~\r" {
			t.Errorf("%q", got)
		}
		_ = c.Close()
		s.keyed("~.") // while there is no connection
		if e := s.over(); !e.Asked || s.closed != 1 {
			t.Errorf("%+v, closed %d times", e, s.closed)
		}
		if !strings.Contains(s.notes.String(), Help) {
			t.Errorf("%q", s.notes.String())
		}
	})
	synctest.Test(t, func(t *testing.T) { // a relay that does not answer
		s := start(t, nil)
		c := s.join()
		s.keyed("~.")
		if b, ok := c.next().(frame.Bye); !ok || b.Lasts {
			t.Errorf("%+v", b)
		}
		if e := s.over(); !e.Asked || s.closed != 1 {
			t.Errorf("%+v, closed %d times", e, s.closed)
		}
	})
}

func TestWhereTheNodeIsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		c := s.join()
		for _, f := range []frame.State{
			{Node: frame.NodeHere, Transport: frame.OverQUIC}, {Node: frame.NodeAway}, {Node: frame.NodeHere, Transport: frame.OverTCP}, {Node: frame.NodeHere, Transport: frame.OverTCP},
		} {
			c.send(f)
		}
		c.send(frame.Bye{Code: "terminal_exited"})
		s.over()
		var lines []string
		for _, l := range strings.Split(s.notes.String(), "\r\n") {
			if l != "" {
				lines = append(lines, l)
			}
		}
		if len(lines) != 3 || !strings.Contains(lines[0], "disconnected") || !strings.Contains(lines[1], "back") || !strings.Contains(lines[2], "TCP") {
			t.Errorf("%q", lines)
		}
	})
}

// After a protocol error the relay is ignored.
func TestWhatDoesNotFitEndsIt(t *testing.T) {
	for name, c := range map[string]struct {
		frames []frame.Frame
		code   taskcatalog.Code
	}{
		"output that leaves bytes out":       {[]frame.Frame{frame.Data{Offset: 5, Bytes: []byte("x")}}, frame.CodeGap},
		"output beyond what is allowed":      {[]frame.Frame{frame.Data{Bytes: bytes.Repeat([]byte("x"), frame.MaxData)}, frame.Data{Offset: frame.MaxData, Bytes: make([]byte, window+1)}}, frame.CodeBeyondLimit},
		"an ack of what was not typed":       {[]frame.Frame{frame.Ack{Taken: 5, Limit: 9}}, frame.CodeAckUnsent},
		"two Welcomes":                       {[]frame.Frame{frame.Welcome{Version: frame.Version}}, "frame_unexpected"},
		"a Hello":                            {[]frame.Frame{frame.Hello{}}, "frame_unexpected"},
		"an end before what was said":        {[]frame.Frame{frame.Data{Bytes: []byte("abc")}, frame.EOF{Offset: 1}}, frame.CodeAfterEnd},
		"a signal, which goes the other way": {[]frame.Frame{frame.Signal{Name: "INT"}}, "frame_unexpected"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, nil)
			conn := s.join()
			until(conn, func(frame.Ack) bool { return true })
			conn.send(c.frames...)
			s.over()
			if broker.AsError(s.err).Code != string(c.code) {
				t.Errorf("%s: %v", name, s.err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := start(t, nil)
		conn, _ := s.accept()
		conn.send(frame.Data{Bytes: []byte("x")})
		s.over()
		if broker.AsError(s.err).Code != "frame_unexpected" || s.out.String() != put {
			t.Errorf("before the Welcome: %v", s.err)
		}
	})
}

func TestOutputThatNobodyTakesEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(s *side) { s.out.err = io.ErrClosedPipe })
		c := s.join()
		c.send(frame.Data{Bytes: []byte("x")})
		s.over()
		if broker.AsError(s.err).Code != "output_failed" || s.closed != 1 {
			t.Errorf("%v, closed %d times", s.err, s.closed)
		}
	})
}

func TestASignalLeavesOrEnds(t *testing.T) {
	for _, keyboard := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, func(s *side) { s.Keyboard = keyboard })
			c := s.join()
			until(c, func(frame.Ack) bool { return true })
			s.stop()
			if b, ok := c.next().(frame.Bye); !ok || b.Lasts != keyboard {
				t.Errorf("%v: %+v", keyboard, b)
			}
			_ = c.Close()
			if e := s.over(); !e.Asked || e.Left != keyboard {
				t.Errorf("%v: %+v", keyboard, e)
			}
		})
	}
}
