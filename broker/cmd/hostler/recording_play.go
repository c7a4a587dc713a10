package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/escape"
	"github.com/hostler/hostler/broker/recording"
)

// player plays a recording.
type player struct {
	out  io.Writer
	note func(format string, args ...any)
	// screen says that out is a terminal, of columns and rows, which is restored at the end.
	screen        bool
	columns, rows int
	speed         float64       // 0: without waits
	idle          time.Duration // the longest wait, in recorded time; 0: no limit
}

func recordingPlayCommand(a *app) *cobra.Command {
	p := player{}
	c := &cobra.Command{
		Use: "play ID", Short: "play a recording", Args: exactly("ID"),
		Long: `Play a recording at the speed at which it was made. Only drawing reaches your
terminal: output that sets a title or the clipboard, or that your terminal would
answer, is left out. The audit log records who reads a recording. Ctrl-C while it
plays ends the command with status 0.`,
		Example: "  hostler recording play ts-7k2m4q6s --idle-limit 2s\n  hostler recording play ts-7k2m4q6s --speed 4",
		RunE: func(c *cobra.Command, args []string) error {
			if !(p.speed >= 0 && p.speed <= 1000) || p.idle < 0 {
				return usage("--speed takes a number from 0 (without waiting) to 1000, and --idle-limit a time")
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			// The recording is downloaded at once, and then played in its own time.
			f, err := os.CreateTemp("", "hostler-recording-*")
			if err != nil {
				return broker.Errorf(broker.Internal, "output_failed", "cannot keep the recording while it is played: %v", err)
			}
			defer func() { _ = f.Close() }()
			if err := os.Remove(f.Name()); err != nil {
				return broker.Errorf(broker.Internal, "output_failed", "cannot keep the recording while it is played: %v", err)
			}
			if err := remote.CopyRecording(c.Context(), args[0], f); err != nil {
				return err
			}
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return broker.Errorf(broker.Internal, "output_failed", "cannot read the recording: %v", err)
			}
			size := a.terminalSize()
			p.out, p.note, p.screen, p.columns, p.rows = a.out, a.note, tty(a.out, term.IsTerminal) != nil, size.Columns, size.Rows
			return p.play(c.Context(), f)
		},
	}
	c.Flags().Float64Var(&p.speed, "speed", 1, "playback speed as a factor; 0: without waiting")
	c.Flags().DurationVar(&p.idle, "idle-limit", 0, "longest pause (0: pauses as recorded)")
	return c
}

// maxCastLine is longer than any line of a recording.
const maxCastLine = 256 << 10

// play writes the output of a recording at the recorded times.
func (p *player) play(ctx context.Context, cast io.Reader) error {
	lines := bufio.NewScanner(cast)
	lines.Buffer(make([]byte, 0, 64<<10), maxCastLine)
	if !lines.Scan() {
		return malformed(1, lines.Err())
	}
	h, err := recording.ParseHeader(lines.Bytes())
	if err != nil {
		return malformed(1, err)
	}
	if p.screen {
		p.fits(h.Width, h.Height)
	}
	filter := escape.New(escape.Policy{})
	if p.screen {
		defer func() { _, _ = p.out.Write(filter.Restore(nil)) }()
	}
	var at time.Duration
	var buf []byte
	for n := 2; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		e, err := recording.ParseEvent(line)
		if err != nil {
			return malformed(n, err)
		}
		if !p.wait(ctx, e.After-at) {
			return stoppedPlay(ctx)
		}
		at = max(at, e.After)
		switch e.Kind {
		case recording.Output:
			buf = filter.Append(buf[:0], []byte(e.Text))
			if _, err := p.out.Write(buf); err != nil {
				return broker.Errorf(broker.Internal, "output_failed", "cannot write the output: %v", err)
			}
		case recording.Marker:
			p.note("%s", e.Text)
		case recording.Resize:
			if columns, rows, err := e.Size(); err == nil && p.screen {
				p.fits(columns, rows)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return malformed(0, err)
	}
	return nil
}

// stoppedPlay is the end of a recording that was stopped while it played. A person ends the command by
// Ctrl-C; another signal is no normal end.
func stoppedPlay(ctx context.Context) error {
	if by, ok := errors.AsType[signalled](context.Cause(ctx)); ok && by.Signal != os.Interrupt {
		return ctx.Err()
	}
	return nil
}

// fits warns about a terminal that is too small.
func (p *player) fits(columns, rows int) {
	if columns > p.columns || rows > p.rows {
		p.note("the recorded terminal was %d by %d, and this one is %d by %d: the output may look broken", columns, rows, p.columns, p.rows)
	}
}

// wait waits as long as the recording did. It reports whether the playing goes on.
func (p *player) wait(ctx context.Context, d time.Duration) bool {
	if p.idle > 0 {
		d = min(d, p.idle)
	}
	if p.speed > 0 {
		pause(ctx, time.Duration(float64(d)/p.speed))
	}
	return ctx.Err() == nil
}

func malformed(line int, err error) error {
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return broker.Errorf(broker.Internal, "recording_broken",
		"cannot play the recording: line %d cannot be read: %v (hostler recording verify)", line, err)
}
