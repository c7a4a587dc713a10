package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func allocationTimelineCommand(a *app) *cobra.Command {
	var project string
	c := &cobra.Command{
		Use: "timeline ID", Short: "show when an allocation reached each status, and who moved it", Args: exactly("ID"),
		Long: `Show the statuses that an allocation reached, oldest first: the time, the tenant's
token or person that moved it, or the platform, and the code of a failure. A release
that is tried again has a line for each try.`,
		Example: "  hostler allocation timeline alc-019c4e6a2f1k7m2q4s6t8w\n  hostler allocation timeline alc-019c4e6a2f1k7m2q4s6t8w --project acme/lab -o json",
		RunE: func(c *cobra.Command, args []string) error {
			remote, project, err := a.connectTo(c.Context(), project, args[0])
			if err != nil {
				return err
			}
			t, err := remote.AllocationTimeline(c.Context(), project, args[0])
			if err != nil {
				return err
			}
			if err := a.show(t, nil, func(p *render.Page) { allocationTimelinePage(p, t) }); err != nil {
				return err
			}
			if t.Earlier {
				a.note("these are the newest %d lines, and older ones are left out", len(t.Items))
			}
			return nil
		},
	}
	allocationProjectFlag(c, &project)
	return c
}

func allocationTimelinePage(p *render.Page, t *api.AllocationTimeline) {
	rows := [][]string{}
	for _, e := range t.Items {
		rows = append(rows, []string{render.Time(e.At), e.Status, cmp.Or(e.By, "the platform"), e.Code})
	}
	p.Table([]render.Column{render.Keep("AT"), render.Keep("STATUS"), render.Keep("BY"), render.Keep("CODE")}, rows)
}
