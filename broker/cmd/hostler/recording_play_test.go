package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/broker"
)

// clocked records the time of each write.
type clocked struct {
	began  time.Time
	pieces []string
}

func (c *clocked) Write(b []byte) (int, error) {
	c.pieces = append(c.pieces, fmt.Sprintf("%s %s", time.Since(c.began), b))
	return len(b), nil
}

func TestARecordingIsPlayedInItsTime(t *testing.T) {
	const cast = `{"version":2,"width":80,"height":24,"timestamp":1}
[1.0,"o","a"]
[1.0,"o","b"]
[61.5,"o","c"]
[61.0,"o","d"]
[62.5,"o","e"]
`
	for name, c := range map[string]struct {
		p    player
		want string
	}{
		"as it was":    {player{speed: 1}, "1s a|1s b|1m1.5s c|1m1.5s d|1m2.5s e"},
		"twice":        {player{speed: 2}, "500ms a|500ms b|30.75s c|30.75s d|31.25s e"},
		"no long wait": {player{speed: 1, idle: 2 * time.Second}, "1s a|1s b|3s c|3s d|4s e"},
		"both":         {player{speed: 2, idle: 2 * time.Second}, "500ms a|500ms b|1.5s c|1.5s d|2s e"},
		"without time": {player{}, "0s a|0s b|0s c|0s d|0s e"},
	} {
		synctest.Test(t, func(t *testing.T) {
			out := &clocked{began: time.Now()}
			c.p.out = out
			if err := c.p.play(t.Context(), strings.NewReader(cast)); err != nil {
				t.Error(err)
			}
			if got := strings.Join(out.pieces, "|"); got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		})
	}
}

func TestWhatIsPlayedIsPutRightAlsoWhenItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var notes []string
		p := player{out: &out, screen: true, columns: 80, rows: 24, speed: 1, note: func(f string, args ...any) { notes = append(notes, fmt.Sprintf(f, args...)) }}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		err := p.play(ctx, strings.NewReader(`{"version":2,"width":80,"height":25,"timestamp":1}
[1.0,"o","\u001b[?1049h\u001b[?25l\u001b[?1000h"]
[2.0,"r","80x24"]
[3.0,"r","81x24"]
[999.0,"o","never"]
`))
		if err != nil || out.String() != "\x1b[?1049h\x1b[?25l\x1b[?1049l\x1b[?25h\x1b[0m\x1b(B\x0f" {
			t.Errorf("%q, %v", out.String(), err)
		}
		if len(notes) != 2 || !strings.Contains(notes[0], "80 by 25, and this one is 80 by 24") || !strings.Contains(notes[1], "81 by 24") {
			t.Errorf("%q", notes)
		}
	})
}

// Ctrl-C is the normal end of a recording that plays. Another signal is none.
func TestOnlyAnInterruptIsANormalEndOfPlaying(t *testing.T) {
	for by, want := range map[os.Signal]error{os.Interrupt: nil, syscall.SIGTERM: context.Canceled, syscall.SIGHUP: context.Canceled} {
		ctx, end := context.WithCancelCause(t.Context())
		end(signalled{by})
		p := player{out: &bytes.Buffer{}, speed: 1}
		if err := p.play(ctx, strings.NewReader(`{"version":2,"width":80,"height":24}`+"\n[9,\"o\",\"x\"]\n")); !errors.Is(err, want) {
			t.Errorf("%v: %v, want %v", by, err, want)
		}
	}
}

func TestASignalIsTheCauseOfTheEnd(t *testing.T) {
	ctx, stop := untilSignal()
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if by, ok := errors.AsType[signalled](context.Cause(ctx)); !ok || by.Signal != syscall.SIGHUP {
		t.Errorf("the cause is %v", context.Cause(ctx))
	}
}

func TestALineThatIsTooLongIsNoRecording(t *testing.T) {
	p := player{out: &bytes.Buffer{}}
	err := p.play(t.Context(), strings.NewReader(`{"version":2,"width":80,"height":24}`+"\n[0,\"o\",\""+strings.Repeat("x", maxCastLine)+"\"]\n"))
	if broker.AsError(err).Code != "recording_broken" {
		t.Errorf("%v", err)
	}
}
