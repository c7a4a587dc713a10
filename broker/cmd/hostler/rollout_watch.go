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
)

func rolloutWatchCommand(a *app) *cobra.Command {
	return a.watchCommand(&cobra.Command{
		Short: "follow a rollout until it ends or needs an operator",
		Long: `Follow the waves of a rollout until it ends or needs an operator. The exit status is
0 only if the rollout completed. Stopping this command does not stop the rollout.`,
		Example: "  hostler rollout watch r-019f2c1a7b3k5x7e2q9d4 --timeout 4h",
	}, (*app).watchRollout)
}

// watchRollout follows a rollout and shows it when it stops.
func (a *app) watchRollout(ctx context.Context, remote *client.Client, id string, timeout time.Duration) error {
	waiting, cancel := within(ctx, timeout)
	defer cancel()
	tree := &stageTree{progress: a.progress()}
	defer tree.clear()
	for {
		d, err := remote.Rollout(waiting, id, true)
		switch {
		case waiting.Err() != nil && ctx.Err() == nil:
			return timedOut("rollout %s has not ended after %s (it continues: hostler rollout watch %s)", id, timeout, id)
		case ctx.Err() != nil:
			return broker.Errorf(broker.Internal, "interrupted",
				"stopped watching rollout %s (it continues: hostler rollout watch %s, hostler rollout pause %s)", id, id, id)
		case err != nil:
			return err
		}
		tree.drawWaves(d.Rollout, a.now())
		if d.Ended || strings.HasPrefix(d.Status, "failed_") {
			tree.clear()
			if d, err = remote.Rollout(ctx, id, false); err != nil {
				return err
			}
			if err := a.show(d, []string{d.RolloutID}, func(p *render.Page) {
				rolloutPage(a, p, d.Rollout)
				nodesPage(p, d.Nodes, false)
			}); err != nil {
				return err
			}
			return rolloutEnd(d.Rollout)
		}
		pause(waiting, tick)
	}
}

// rolloutEnd is the error of a rollout that did not complete.
func rolloutEnd(r api.Rollout) error {
	switch r.Status {
	case "completed":
		return nil
	case "cancelled":
		return broker.Errorf(broker.Internal, "rollout_aborted", "rollout %s of %s was aborted", r.RolloutID, r.Release)
	}
	code := r.ErrorCode
	if code == "" {
		code = r.Status
	}
	return broker.Errorf(broker.Internal, code, "rollout %s stopped at %s: %s (%s)", r.RolloutID, r.CurrentStage, r.ErrorMessage,
		r.RecommendedNextAction)
}

// drawWaves draws a rollout: on a terminal all waves, redrawn in place; elsewhere a line for each
// change that matters.
func (t *stageTree) drawWaves(r api.Rollout, now time.Time) {
	head := fmt.Sprintf("%s  %s  %s  %s", render.Span(max(now.Sub(r.RequestedAt), 0)), r.Release, r.Status, r.CurrentStage)
	if r.Waiting != "" {
		head += "  " + r.Waiting
	}
	if !t.live {
		mark := r.Status + r.CurrentStage + fmt.Sprint(failedOf(r.Counts))
		for _, w := range r.Waves {
			mark += "|" + w.State
		}
		t.say(mark, head)
		return
	}
	lines, wide := []string{head}, 0
	for _, w := range r.Waves {
		wide = max(wide, len(w.Name))
	}
	for _, w := range r.Waves {
		lines = append(lines, fmt.Sprintf("  %-*s  %s  %-7s  %s", wide, w.Name, barOf(w.Members, w.Counts), w.State,
			membersLine(w.Members, w.Counts, w.Parked)))
	}
	t.redraw(lines)
}

// barWidth is the width of a wave's bar, in columns.
const barWidth = 24

// barOf is a wave as a bar: done, failed, skipped, under way, and waiting.
func barOf(members int, n map[string]int) string {
	var out strings.Builder
	upTo := 0
	drawn := 0
	for _, part := range []struct {
		n    int
		mark string
	}{
		{n["done"], "█"},
		{failedOf(n), "✗"},
		{n["skipped"], "–"},
		{movingOf(n), "▒"},
		{n["waiting"], "·"},
	} {
		upTo += part.n
		for ; members > 0 && drawn < (upTo*barWidth+members-1)/members; drawn++ {
			out.WriteString(part.mark)
		}
	}
	return out.String() + strings.Repeat(" ", barWidth-drawn)
}

func failedOf(n map[string]int) int { return n["failed"] + n["rolled_back"] + n["taken_back"] }
func movingOf(n map[string]int) int { return n["running"] + n["failing"] + n["taking_back"] }

// membersLine counts nodes: 9/18 done, 5 under way, 1 rolled back.
func membersLine(members int, n map[string]int, parked int) string {
	line := fmt.Sprintf("%d/%d done", n["done"], members)
	for _, part := range []struct {
		n     int
		words string
	}{
		{movingOf(n) - parked, "under way"},
		{parked, "parked"},
		{n["rolled_back"], "rolled back"},
		{n["taken_back"], "taken back"},
		{n["failed"], "failed"},
		{n["skipped"], "skipped"},
	} {
		if part.n > 0 {
			line += fmt.Sprintf(", %d %s", part.n, part.words)
		}
	}
	return line
}
