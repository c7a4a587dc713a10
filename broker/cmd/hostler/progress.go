package main

import (
	"fmt"
	"io"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

// progress reports on stderr how far something is: one line, overwritten in place on a terminal;
// elsewhere a line for each change that matters.
type progress struct {
	w     io.Writer
	live  bool
	width func() int
	last  string // the last mark
	open  bool   // a live line is on the screen
}

func (a *app) progress() *progress {
	if a.quiet {
		return &progress{w: io.Discard, width: a.width}
	}
	return &progress{w: a.err, live: a.live, width: a.width}
}

// say shows text, which may come from a node. Where lines stay, a new line is written only if mark
// has changed.
func (p *progress) say(mark, text string) {
	text = taskcatalog.Clean(text, 500)
	if p.live {
		p.open = true
		_, _ = fmt.Fprintf(p.w, "\r\x1b[K%s", render.Cut(text, max(p.width()-1, 20)))
		return
	}
	if mark != p.last {
		p.last = mark
		_, _ = fmt.Fprintln(p.w, text)
	}
}

// done removes the live line.
func (p *progress) done() {
	if p.open {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K")
		p.open = false
	}
}

// task shows where a task stands.
func (p *progress) task(t *api.Task, elapsed string) {
	head := fmt.Sprintf("%s %s %s", t.ID, t.Type, t.Status)
	if t.CancelRequested && !t.Ended {
		head += " (cancel requested)"
	}
	mark := head
	if g := t.Progress; g != nil && !t.Ended {
		head += fmt.Sprintf("  step %d/%d %s %s %d%%", g.CurrentStepIndex, g.TotalSteps, g.CurrentStepName, g.StepStatus, g.StepPercent)
		if g.Message != "" {
			head += "  " + g.Message
		}
		// A line for each tenth of a step is enough to read later.
		mark += fmt.Sprintf("|%d|%s|%s|%d", g.CurrentStepIndex, g.CurrentStepName, g.StepStatus, g.StepPercent/10)
	}
	if p.live {
		head = elapsed + "  " + head
	}
	p.say(mark, head)
}
