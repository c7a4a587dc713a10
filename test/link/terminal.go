package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/creack/pty"
)

// terminal is a client on a terminal of its own, which shows the output of a program at the other
// end.
type terminal struct {
	cmd    *exec.Cmd
	master *os.File
	ended  chan struct{}

	mu    sync.Mutex
	shown []byte
	came  []arrival
	news  chan struct{} // closed when something comes, and another is there then
}

// arrival is the time when the output up to an offset had been shown.
type arrival struct {
	at   time.Time
	upTo int
}

// open starts a client. The client's stderr is not on the terminal.
func open(argv ...string) (*terminal, error) {
	t := &terminal{cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{}), news: make(chan struct{})}
	t.cmd.Stderr = os.Stderr
	var err error
	if t.master, err = pty.StartWithSize(t.cmd, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
		return nil, err
	}
	go t.watch()
	return t, nil
}

func (t *terminal) watch() {
	defer close(t.ended)
	buf := make([]byte, 64<<10)
	for {
		n, err := t.master.Read(buf)
		now := time.Now()
		t.mu.Lock()
		t.shown = append(t.shown, buf[:n]...)
		t.came = append(t.came, arrival{now, len(t.shown)})
		close(t.news)
		t.news = make(chan struct{})
		t.mu.Unlock()
		if err != nil { // the client has gone
			_ = t.cmd.Wait()
			return
		}
	}
}

// shows waits until the terminal has shown so much.
func (t *terminal) shows(ctx context.Context, bytes int) error {
	for over := false; ; {
		t.mu.Lock()
		n, news := len(t.shown), t.news
		t.mu.Unlock()
		switch {
		case n >= bytes:
			return nil
		case over:
			return fmt.Errorf("%s has ended (%s) with %d of %d bytes shown", t.cmd.Args[0], t.cmd.ProcessState, n, bytes)
		}
		select {
		case <-news:
		case <-t.ended:
			over = true // the last output is still to be checked
		case <-ctx.Done():
			return fmt.Errorf("%s has shown %d of %d bytes: %w", t.cmd.Args[0], n, bytes, context.Cause(ctx))
		}
	}
}

// ready is the program's first output. Nothing is typed before: until then the client's own
// terminal would echo the keys.
const ready = "ready\r\n"

func (t *terminal) begun(ctx context.Context) error {
	if err := t.shows(ctx, len(ready)); err != nil {
		return err
	}
	if !bytes.HasPrefix(t.shown, []byte(ready)) {
		return fmt.Errorf("%s shows %q", t.cmd.Args[0], t.shown)
	}
	return nil
}

// echoes types keys at a fixed pace, without waiting for the output, and returns the time until
// each key was shown.
func (t *terminal) echoes(ctx context.Context, keys int, pace time.Duration) ([]time.Duration, error) {
	t.mu.Lock()
	from := len(t.shown)
	t.mu.Unlock()
	typed, text := make([]time.Time, keys), make([]byte, keys)
	key := time.NewTicker(pace)
	defer key.Stop()
	for i := range keys {
		<-key.C
		text[i] = 'a' + byte(i%26)
		typed[i] = time.Now()
		if _, err := t.master.Write(text[i : i+1]); err != nil {
			return nil, err
		}
	}
	if err := t.shows(ctx, from+keys); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if shown := t.shown[from:]; !bytes.Equal(shown, text) {
		return nil, fmt.Errorf("%s shows %q for %q", t.cmd.Args[0], shown, text)
	}
	took := make([]time.Duration, keys)
	for i := range took {
		at, _ := slices.BinarySearchFunc(t.came, from+i+1, func(a arrival, upTo int) int { return a.upTo - upTo })
		took[i] = t.came[at].at.Sub(typed[i])
	}
	return took, nil
}

// rate returns the bytes per second of a program that wrote exactly this text as soon as it was
// ready.
func (t *terminal) rate(ctx context.Context, text []byte) (float64, error) {
	if err := t.shows(ctx, len(ready)+len(text)); err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !bytes.Equal(t.shown, append([]byte(ready), text...)) {
		return 0, fmt.Errorf("%s shows another text of %d bytes", t.cmd.Args[0], len(t.shown))
	}
	first, last := t.came[0], t.came[len(t.came)-1]
	for i := len(t.came) - 1; i > 0 && t.came[i-1].upTo == len(t.shown); i-- {
		last = t.came[i-1] // excludes the client's end
	}
	return float64(len(t.shown)-first.upTo) / last.at.Sub(first.at).Seconds(), nil
}

// close ends the client, if it still runs.
func (t *terminal) close() {
	select {
	case <-t.ended:
	default:
		_ = t.cmd.Process.Kill()
		<-t.ended
	}
	_ = t.master.Close()
}

// quantile returns the smallest value that the given share of the sorted values does not exceed.
func quantile[T any](values []T, q float64) T {
	return values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
}
