package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// narrator tells the story: what happens, which command was typed, what it
// printed, and at the end what was seen.
type narrator struct {
	out     io.Writer
	started time.Time
	scenes  int
	seen    []string
}

func (n *narrator) elapsed() string {
	d := time.Since(n.started).Round(time.Second)
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

func (n *narrator) scene(title string) {
	n.scenes++
	fmt.Fprintf(n.out, "\n%s  %d. %s\n", n.elapsed(), n.scenes, title)
}

func (n *narrator) say(format string, args ...any) {
	fmt.Fprintf(n.out, "      %s\n", fmt.Sprintf(format, args...))
}

func (n *narrator) typed(command string) {
	fmt.Fprintf(n.out, "    $ %s\n", command)
}

// printed shows a program's output, at most limit lines of it.
func (n *narrator) printed(text string, limit int) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		if i == limit {
			fmt.Fprintf(n.out, "    … %d more lines\n", len(lines)-limit)
			return
		}
		fmt.Fprintf(n.out, "    %s\n", line)
	}
}

// live shows lines as they come, at most limit of them, the first of each.
func (n *narrator) live(limit int) io.Writer { return &liveLines{n: n, left: limit} }

type liveLines struct {
	n    *narrator
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
			fmt.Fprintf(l.n.out, "    %s  %s\n", l.n.elapsed(), line)
		}
	}
}

// saw adds to the list at the end: a thing that was checked, not assumed.
func (n *narrator) saw(format string, args ...any) {
	n.seen = append(n.seen, fmt.Sprintf(format, args...))
}

func (n *narrator) epilogue() {
	fmt.Fprintf(n.out, "\n%s  What was seen\n", n.elapsed())
	for _, s := range n.seen {
		fmt.Fprintf(n.out, "      ✓ %s\n", s)
	}
	fmt.Fprint(n.out, `
      What to try next
        bin/hostler-broker serve --data-dir ./trial                                     a broker of your own
        bin/hostler --config ./trial/client.yaml task describe node.validate_clean      what is cleaned, what is only found
        README.md                                                                       a walk by hand
        docs/security.md                                                                who can and cannot do what
`)
}
