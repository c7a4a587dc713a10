package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

// maxTimeline bounds the lines of one command.
const maxTimeline = 10000

func nodeTimelineCommand(a *app) *cobra.Command {
	var since string
	var limit int
	c := &cobra.Command{
		Use: "timeline NODE", Short: "show the history of a node", Args: exactly("NODE"),
		Long: `Show the history of a node, oldest first: its status, its tasks, its runs with each
attempt of their stages, drift, certificates, how long each turnover kept the node
out of use and how many GPU-hours that cost, and other actions with their authors.
An entry that takes time stands at its start, with its duration. Without --since the
newest lines are shown.`,
		Example: "  hostler node timeline gpu-07 --limit 20\n  hostler node timeline gpu-07 --since 24h -o json",
		RunE: func(c *cobra.Command, args []string) error {
			if limit < 1 || limit > maxTimeline {
				return usage("--limit takes a number from 1 to %d", maxTimeline)
			}
			from, err := a.timeFlag("since", since)
			if err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			t, err := remote.Timeline(c.Context(), args[0], from, limit)
			if err != nil {
				return err
			}
			if err := a.show(t, nil, func(p *render.Page) { timelinePage(a, p, t) }); err != nil {
				return err
			}
			switch {
			case t.Earlier:
				a.note("these are the newest %d lines (--since shows lines from a time on, --limit shows more)", len(t.Items))
			case t.Next != "":
				a.note("more lines follow these %d (--limit shows more)", len(t.Items))
			}
			return nil
		},
	}
	c.Flags().StringVar(&since, "since", "", "from this `TIME` on: a date, RFC 3339, or an age such as 24h")
	c.Flags().IntVar(&limit, "limit", 100, "maximum number of lines")
	return c
}

func timelinePage(a *app, p *render.Page, t *api.Timeline) {
	rows := [][]string{}
	for _, e := range t.Items {
		of := e.TaskID
		if of == "" {
			of = e.RunID
		}
		rows = append(rows, []string{render.Time(e.At), timelineTook(a, e), e.Kind, e.What, e.Status, of, e.Actor, e.Code, e.Detail})
	}
	p.Table([]render.Column{
		render.Keep("AT"), render.Aside("TOOK"), render.Main("KIND"), render.Keep("WHAT"), render.Keep("STATUS"),
		render.More("OF"), render.More("BY"), render.Keep("CODE"), render.Keep("DETAIL"),
	}, rows)
}

// openStatuses are the statuses of things that have not ended.
var openStatuses = []string{
	"queued", "dispatched", "pending", "running", "compensating", "started", "open", "failed_retryable",
	"failed_manual_intervention",
}

// timelineTook is how long an event took, or has taken so far. Most events have no duration.
func timelineTook(a *app, e api.TimelineEvent) string {
	switch {
	case !e.EndedAt.IsZero():
		return render.Span(max(e.EndedAt.Sub(e.At), 0))
	case slices.Contains(openStatuses, e.Status):
		return render.Span(max(a.now().Sub(e.At), 0)) + " so far"
	}
	return ""
}
