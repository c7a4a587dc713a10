package story

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Story is a demo's output so far.
type Story struct {
	out     *os.File
	started time.Time
	scenes  int
	seen    []string

	mu    sync.Mutex // guards the fields below and concurrent output
	drawn bool       // a program draws on the terminal
	later []string
}

// New begins a story.
func New(out *os.File) *Story { return &Story{out: out, started: time.Now()} }

// Restart resets the clock of the story: earlier steps are not timed.
func (n *Story) Restart() { n.started = time.Now() }

// Elapsed is the time since the beginning.
func (n *Story) Elapsed() string {
	d := time.Since(n.started).Round(time.Second)
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// Scene begins another part.
func (n *Story) Scene(title string) {
	n.scenes++
	fmt.Fprintf(n.out, "\n%s  %d. %s\n", n.Elapsed(), n.scenes, title)
}

// Say prints a line.
func (n *Story) Say(format string, args ...any) {
	fmt.Fprintf(n.out, "      %s\n", fmt.Sprintf(format, args...))
}

// Meanwhile prints an event, with the time, while a command runs. If the command draws on the
// terminal, the event is printed afterwards.
func (n *Story) Meanwhile(format string, args ...any) {
	line := fmt.Sprintf("    %s    ‖ %s\n", n.Elapsed(), fmt.Sprintf(format, args...))
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.drawn {
		n.later = append(n.later, line)
		return
	}
	fmt.Fprint(n.out, line)
}

// Typed shows a command before it runs.
func (n *Story) Typed(command string) {
	fmt.Fprintf(n.out, "    $ %s\n", command)
}

// Printed shows at most limit lines of a program's output.
func (n *Story) Printed(text string, limit int) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		if i == limit {
			fmt.Fprintf(n.out, "    … %d more lines\n", len(lines)-limit)
			return
		}
		fmt.Fprintf(n.out, "    %s\n", line)
	}
}

// Live shows lines as they come, at most the first limit lines.
func (n *Story) Live(limit int) io.Writer { return &liveLines{n: n, left: limit} }

// Drawing is the target for a program's progress: the terminal itself, if there is one, else lines
// as they come. Call done at the end.
func (n *Story) Drawing(limit int) (w io.Writer, done func()) {
	if !term.IsTerminal(int(n.out.Fd())) || os.Getenv("TERM") == "dumb" {
		return n.Live(limit), func() {}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drawn = true
	return n.out, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, line := range n.later {
			fmt.Fprint(n.out, line)
		}
		n.drawn, n.later = false, nil
	}
}

type liveLines struct {
	n    *Story
	left int
	part string
}

func (l *liveLines) Write(p []byte) (int, error) {
	text := l.part + string(p)
	for {
		line, rest, whole := strings.Cut(text, "\n")
		if !whole {
			l.part = line
			return len(p), nil
		}
		text = rest
		if l.left > 0 {
			l.left--
			l.n.mu.Lock()
			fmt.Fprintf(l.n.out, "    %s  %s\n", l.n.Elapsed(), line)
			l.n.mu.Unlock()
		}
	}
}

// Saw adds to the list at the end: a thing that was checked, not assumed.
func (n *Story) Saw(format string, args ...any) {
	n.seen = append(n.seen, fmt.Sprintf(format, args...))
}

// End lists the checked results and the suggested next steps, in pairs of a command and its
// purpose.
func (n *Story) End(next ...string) {
	fmt.Fprintf(n.out, "\n%s  What was seen\n", n.Elapsed())
	for _, s := range n.seen {
		fmt.Fprintf(n.out, "      ✓ %s\n", s)
	}
	fmt.Fprint(n.out, "\n      What to try next\n")
	for i := 0; i+1 < len(next); i += 2 {
		fmt.Fprintf(n.out, "        %-80s%s\n", next[i], next[i+1])
	}
}
