package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

// watching is how the watch command of a noun looks at a run.
type watching struct {
	thing, noun string
	look        func(ctx context.Context, id string) (*seenRun, error)
	// beside is the command named beside watch when a person stops watching; nil: cancel. It may be
	// empty.
	beside func(id string) string
}

// commands are the commands for a run that goes on while nobody watches it.
func (w watching) commands(id string) string {
	beside := "hostler " + w.noun + " cancel " + id
	if w.beside != nil {
		beside = w.beside(id)
	}
	watch := "hostler " + w.noun + " watch " + id
	if beside == "" {
		return watch
	}
	return watch + ", " + beside
}

// watchCommand makes c, which has its texts, the command that watches a run of a noun.
func (a *app) watchCommand(
	c *cobra.Command, watch func(*app, context.Context, *client.Client, string, time.Duration) error,
) *cobra.Command {
	var timeout time.Duration
	c.Use, c.Args = "watch ID", exactly("ID")
	c.RunE = func(c *cobra.Command, args []string) error {
		remote, err := a.connect()
		if err != nil {
			return err
		}
		return watch(a, c.Context(), remote, args[0], timeout)
	}
	timeoutFlag(c, &timeout)
	return c
}

// seenRun is a run as a watch command sees it.
type seenRun struct {
	drawing
	id       string
	answer   any // as the API gave it
	page     func(p *render.Page)
	end      func() error // of a run that has stopped; nil if it ended well
	replaced bool         // another run is about to begin in its place, although it has stopped
	followed string       // the run that has begun in its place
	why      string       // why that run began
}

// drawing holds the fields of a run that a stage tree draws.
type drawing struct {
	api.RunState
	subject     string
	machine     string // its status in MAAS
	requestedAt time.Time
	stages      []api.RunStage
}

// watchRun follows a run and shows it when it stops. If another run begins in its place, the
// command follows that run. An interrupt stops only the watching.
func (a *app) watchRun(ctx context.Context, id string, timeout time.Duration, w watching) error {
	waiting, cancel := within(ctx, timeout)
	defer cancel()
	tree := &stageTree{progress: a.progress()}
	defer tree.clear()
	for {
		s, err := w.look(waiting, id)
		switch {
		case waiting.Err() != nil && ctx.Err() == nil:
			return timedOut("%s %s has not ended after %s (it continues: hostler %s watch %s)", w.thing, id, timeout, w.noun, id)
		case ctx.Err() != nil:
			return broker.Errorf(broker.Internal, "interrupted", "stopped watching %s %s (it continues: %s)", w.thing, id, w.commands(id))
		case err != nil:
			return err
		}
		if s.followed != "" {
			tree.clear()
			a.note("%s", s.why)
			id = s.followed
			continue
		}
		tree.draw(s.drawing, a.now())
		if !s.replaced && (s.Ended || strings.HasPrefix(s.Status, "failed_")) {
			tree.clear()
			if err := a.show(s.answer, []string{s.id}, s.page); err != nil {
				return err
			}
			return s.end()
		}
		pause(waiting, tick)
	}
}

// runEnd is the error of a run that has stopped, nil if it was completed. cancelled is the code of
// a cancelled run.
func runEnd(what, cancelled string, s api.RunState) error {
	switch s.Status {
	case "completed", "reconciled":
		return nil
	case "cancelled":
		return broker.Errorf(broker.Internal, cancelled, "%s was cancelled", what)
	}
	code := s.ErrorCode
	if code == "" {
		code = s.Status
	}
	return broker.Errorf(broker.Internal, code, "%s stopped at %s: %s (%s)", what, s.CurrentStage, s.ErrorMessage, s.RecommendedNextAction)
}

// sinceOf is the start of what a run does now.
func sinceOf(s api.RunState, t api.RunTimes) time.Time {
	switch {
	case s.Ended:
		return t.CompletedAt
	case !t.StageEnteredAt.IsZero():
		return t.StageEnteredAt
	}
	return t.RequestedAt
}

// nextOf is the next thing that a person wants to know.
func nextOf(s api.RunState) string {
	if s.RecommendedNextAction != "" {
		return s.RecommendedNextAction
	}
	return s.Waiting
}

// stageTree draws a run: on a terminal all of it, redrawn in place; elsewhere a line for each
// change that matters.
type stageTree struct {
	*progress
	lines int // lines on the screen
}

func (t *stageTree) draw(d drawing, now time.Time) {
	if !t.live {
		t.say(strings.Join([]string{d.Status, d.CurrentStage, d.Direction, fmt.Sprint(d.CurrentAttempt), d.machine, d.FailureClass}, "|"),
			headOf(d, now))
		return
	}
	t.redraw(treeOf(d, now))
}

// redraw replaces the lines of the previous drawing.
func (t *stageTree) redraw(text []string) {
	var out strings.Builder
	if t.lines > 0 {
		fmt.Fprintf(&out, "\x1b[%dA", t.lines)
	}
	for _, line := range text {
		fmt.Fprintf(&out, "\r\x1b[K%s\n", render.Cut(taskcatalog.Clean(line, 500), max(t.width()-1, 20)))
	}
	out.WriteString("\x1b[J")
	t.lines = len(text)
	_, _ = fmt.Fprint(t.w, out.String())
}

// clear removes a live tree.
func (t *stageTree) clear() {
	if t.lines > 0 {
		_, _ = fmt.Fprintf(t.w, "\x1b[%dA\r\x1b[J", t.lines)
		t.lines = 0
	}
}

// headOf is a run in one line.
func headOf(d drawing, now time.Time) string {
	words := []string{d.subject, d.Status}
	if !d.Ended {
		words = append(words, d.CurrentStage)
		if d.Direction == "undo" {
			words = append(words, "(taking back)")
		}
		if d.CurrentAttempt > 1 {
			words = append(words, fmt.Sprintf("attempt %d", d.CurrentAttempt))
		}
	}
	if d.machine != "" {
		words = append(words, "MAAS: "+d.machine)
	}
	if d.FailureClass != "" {
		words = append(words, d.FailureClass+": "+d.ErrorMessage)
	}
	if next := nextOf(d.RunState); next != "" {
		words = append(words, "→ "+next)
	}
	return render.Span(max(now.Sub(d.requestedAt), 0)) + "  " + strings.Join(words, "  ")
}

var stageMarks = map[string]string{"pending": "·", "running": "▸", "succeeded": "✓", "skipped": "–", "failed": "✗", "compensated": "↩"}

// treeOf is a run with its stages; a detour stands below the stage that it rescues.
func treeOf(d drawing, now time.Time) []string {
	lines := []string{headOf(d, now)}
	for _, s := range d.stages {
		indent := "  "
		if s.Rescues != "" {
			if s.Attempt == 0 {
				continue
			}
			indent = "      "
		}
		line := indent + stageMarks[s.Status] + " " + s.Stage
		if took := stageTook(s, now); took != "" {
			line += "  " + took
		}
		if s.Attempt > 1 {
			line += fmt.Sprintf("  attempt %d", s.Attempt)
		}
		switch {
		case s.Status == "running" && d.Waiting != "":
			line += "  " + d.Waiting
		case s.Status == "failed":
			line += "  " + s.Message
		}
		lines = append(lines, line)
	}
	return lines
}
