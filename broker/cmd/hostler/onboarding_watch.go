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

func onboardingWatchCommand(a *app) *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use: "watch ID", Short: "follow an onboarding until it has ended or needs a person", Args: exactly("ID"),
		Long: `Follow an onboarding, with its stages, until it has ended or needs a person. The
exit status is 0 only if the machine is an active node.`,
		Example: "  hostler onboarding watch r-019f2c1a7b3k5x7e2q9d4 --timeout 1h",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			return a.watchOnboarding(c.Context(), remote, args[0], timeout)
		},
	}
	timeoutFlag(c, &timeout)
	return c
}

// watchOnboarding follows a run and shows it when it stops. An interrupt stops only the watching.
func (a *app) watchOnboarding(ctx context.Context, remote *client.Client, id string, timeout time.Duration) error {
	waiting, cancel := within(ctx, timeout)
	defer cancel()
	tree := &stageTree{progress: a.progress()}
	defer tree.clear()
	for {
		o, err := remote.Onboarding(waiting, id)
		switch {
		case waiting.Err() != nil && ctx.Err() == nil:
			return timedOut("onboarding %s has not ended after %s (it goes on; hostler onboarding watch %s)", id, timeout, id)
		case ctx.Err() != nil:
			return broker.Errorf(broker.Internal, "interrupted", "stopped watching onboarding %s (it goes on; hostler onboarding watch %s, hostler onboarding cancel %s)", id, id, id)
		case err != nil:
			return err
		}
		tree.draw(o, a.now())
		if o.Ended || strings.HasPrefix(o.Status, "failed_") {
			tree.clear()
			if err := a.show(o, []string{o.OnboardingID}, func(p *render.Page) { onboardingPage(a, p, o, false) }); err != nil {
				return err
			}
			return endOf(o.Onboarding)
		}
		pause(waiting, tick)
	}
}

// endOf is the error of a run that did not make an active node.
func endOf(o api.Onboarding) error {
	switch o.Status {
	case "completed", "reconciled":
		return nil
	case "cancelled":
		return broker.Errorf(broker.Internal, "onboarding_cancelled", "onboarding %s of %s was cancelled", o.OnboardingID, o.Hostname)
	}
	code := o.ErrorCode
	if code == "" {
		code = o.Status
	}
	return broker.Errorf(broker.Internal, code, "onboarding %s of %s stopped at %s: %s (%s)", o.OnboardingID, o.Hostname, o.CurrentStage, o.ErrorMessage, o.RecommendedNextAction)
}

// stageTree draws a run: on a terminal all of it, redrawn in place; elsewhere a line for each
// change that matters.
type stageTree struct {
	*progress
	lines int // lines on the screen
}

func (t *stageTree) draw(o *api.OnboardingDetail, now time.Time) {
	if !t.live {
		t.say(strings.Join([]string{o.Status, o.CurrentStage, o.Direction, fmt.Sprint(o.CurrentAttempt), o.LastObserved.MAASStatus, o.FailureClass}, "|"), headOf(o, now))
		return
	}
	t.redraw(treeOf(o, now))
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
func headOf(o *api.OnboardingDetail, now time.Time) string {
	words := []string{o.Hostname, o.Status}
	if !o.Ended {
		words = append(words, o.CurrentStage)
		if o.Direction == "undo" {
			words = append(words, "(taking back)")
		}
		if o.CurrentAttempt > 1 {
			words = append(words, fmt.Sprintf("attempt %d", o.CurrentAttempt))
		}
	}
	if o.LastObserved.MAASStatus != "" {
		words = append(words, "MAAS: "+o.LastObserved.MAASStatus)
	}
	if o.FailureClass != "" {
		words = append(words, o.FailureClass+": "+o.ErrorMessage)
	}
	if next := nextOf(o.Onboarding); next != "" {
		words = append(words, "→ "+next)
	}
	return render.Span(max(now.Sub(o.RequestedAt), 0)) + "  " + strings.Join(words, "  ")
}

var stageMarks = map[string]string{"pending": "·", "running": "▸", "succeeded": "✓", "skipped": "–", "failed": "✗", "compensated": "↩"}

// treeOf is a run with its stages; a detour stands below the stage that it rescues.
func treeOf(o *api.OnboardingDetail, now time.Time) []string {
	lines := []string{headOf(o, now)}
	for _, s := range o.Stages {
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
		case s.Status == "running" && o.Waiting != "":
			line += "  " + o.Waiting
		case s.Status == "failed":
			line += "  " + s.Message
		}
		lines = append(lines, line)
	}
	return lines
}
