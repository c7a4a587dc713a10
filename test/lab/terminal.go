package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/creack/pty"
)

// Terminal is the operator's command line on a terminal of its own.
type Terminal struct {
	lab    *Lab
	cmd    *exec.Cmd
	master *os.File
	ended  chan struct{}
	exit   int

	mu   sync.Mutex
	seen []byte
	read int // up to where Shows has come
}

// Terminal types a command of hostler's on a terminal of 80 by 24. The caller must Close it.
func (l *Lab) Terminal(args ...string) (*Terminal, error) {
	t := &Terminal{lab: l, ended: make(chan struct{})}
	t.cmd = exec.Command(filepath.Join(l.bin, "hostler"),
		append([]string{"--config", filepath.Join(l.DataDir(), "client.yaml")}, args...)...)
	t.cmd.Env = append(os.Environ(), "NO_COLOR=1", "TERM=xterm-256color", "LANG=C.UTF-8", "LC_ALL=", "XDG_CONFIG_HOME="+l.dir)
	var err error
	if t.master, err = pty.StartWithSize(t.cmd, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
		return nil, err
	}
	go t.watch()
	return t, nil
}

func (t *Terminal) watch() {
	buf := make([]byte, 4096)
	for {
		n, err := t.master.Read(buf)
		t.mu.Lock()
		t.seen = append(t.seen, buf[:n]...)
		t.mu.Unlock()
		if err != nil { // the program has gone
			break
		}
	}
	_ = t.cmd.Wait()
	t.exit = t.cmd.ProcessState.ExitCode()
	close(t.ended)
}

// Type types.
func (t *Terminal) Type(text string) error {
	_, err := t.master.WriteString(text)
	return err
}

// Resize changes the terminal's size.
func (t *Terminal) Resize(columns, rows uint16) error {
	return pty.Setsize(t.master, &pty.Winsize{Cols: columns, Rows: rows})
}

// Text returns all output so far.
func (t *Terminal) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.seen)
}

// Shows waits for one of the texts in the output after the previous match, and returns the text
// found.
func (t *Terminal) Shows(ctx context.Context, texts ...string) (which string, err error) {
	var over error // the program has ended: no more output will come
	err = t.lab.Wait(ctx, fmt.Sprintf("the terminal to show %q", texts), func() error {
		t.mu.Lock()
		defer t.mu.Unlock()
		rest := string(t.seen[t.read:])
		for _, text := range texts {
			if at := strings.Index(rest, text); at >= 0 {
				which = text
				t.read += at + len(text)
				return nil
			}
		}
		select {
		case <-t.ended:
			over = fmt.Errorf("waited in vain for the terminal to show %q: it has ended with status %d: %q", texts, t.exit, rest)
			return nil
		default:
			return fmt.Errorf("it shows %q", rest)
		}
	})
	return which, errors.Join(err, over)
}

// Does types a line and waits for a text.
func (t *Terminal) Does(ctx context.Context, line, shows string) error {
	if err := t.Type(line + "\r"); err != nil {
		return err
	}
	_, err := t.Shows(ctx, shows)
	return err
}

// End waits for the program's end and returns its exit status.
func (t *Terminal) End(ctx context.Context) (int, error) {
	select {
	case <-t.ended:
		return t.exit, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("the terminal has not ended: %q", t.Text())
	}
}

// Close kills the program and closes the terminal.
func (t *Terminal) Close() {
	_ = t.cmd.Process.Kill()
	<-t.ended
	_ = t.master.Close()
}
