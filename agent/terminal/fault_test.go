package terminal

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Invalid input from a faulty relay: each case ends the session with a Bye, and ends the program.
func TestWhatIsNoFrameOrOutOfPlaceEndsTheSession(t *testing.T) {
	raw := func(f frame.Frame) []byte {
		b, err := frame.Append(nil, f)
		ok(t, err)
		return b
	}
	for name, c := range map[string]struct {
		raw  []byte
		code taskcatalog.Code
	}{
		"a kind of tomorrow":       {[]byte{99, 0, 0, 0, 0}, frame.CodeInvalid},
		"a length beyond bounds":   {[]byte{4, 0xff, 0xff, 0xff, 0xff}, frame.CodeInvalid},
		"a wall of a terminal":     {[]byte{7, 0, 0, 0, 4, 0xff, 0xff, 0, 1}, frame.CodeInvalid},
		"a gap":                    {raw(frame.Data{Offset: 5, Bytes: []byte("x")}), frame.CodeGap},
		"more than was allowed":    {bytes.Join([][]byte{raw(frame.Data{Bytes: make([]byte, 16384)}), raw(frame.Data{Offset: 16384, Bytes: make([]byte, 16384)}), raw(frame.Data{Offset: 32768, Bytes: make([]byte, 16384)}), raw(frame.Data{Offset: 49152, Bytes: make([]byte, 16384)}), raw(frame.Data{Offset: 65536, Bytes: []byte("x")})}, nil), frame.CodeBeyondLimit},
		"bytes after the end":      {append(raw(frame.EOF{}), raw(frame.Data{Bytes: []byte("x")})...), frame.CodeAfterEnd},
		"an ack of what was not":   {raw(frame.Ack{Taken: 1, Limit: 1}), frame.CodeAckUnsent},
		"another welcome":          {raw(frame.Welcome{Version: 1}), CodeUnexpected},
		"an exit of a relay":       {raw(frame.Exit{}), CodeUnexpected},
		"a hello in the other way": {raw(frame.Hello{Version: 1}), CodeUnexpected},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRelay()
				run, prog := plays(r)
				prog.stuck = make(chan struct{})
				p, _ := r.welcome(t, frame.Welcome{})
				go func() { _, _ = p.Write(c.raw) }()
				if bye := await[frame.Bye](t, p); bye.Code != c.code || bye.Lasts {
					t.Errorf("the bye is %+v, want %s", bye, c.code)
				}
				p.Close()
				run.end(t, c.code)
				if !prog.isHungUp() {
					t.Error("the program goes on")
				}
			})
		})
	}
	for name, c := range map[string]struct {
		answer frame.Frame
		code   taskcatalog.Code
	}{
		"a welcome of another version": {frame.Welcome{Version: 2}, CodeVersion},
		"a welcome that knows more":    {frame.Welcome{Version: 1, Taken: 1}, frame.CodeAckUnsent},
		"no welcome":                   {frame.Ping{}, CodeUnexpected},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRelay()
				run, _ := plays(r)
				p := <-r.calls
				p.next(t)
				p.send(t, c.answer)
				run.end(t, c.code)
			})
		})
	}
}
