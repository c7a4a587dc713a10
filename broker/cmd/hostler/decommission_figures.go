package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func decommissionFiguresCommand(a *app) *cobra.Command {
	var site, since string
	c := &cobra.Command{
		Use: "figures", Short: "show what turnovers cost: GPU-hours, minutes per stage, and why the slowest are slow", Args: exactly(),
		Long: `Show what turnovers cost. A node is out of use from the time at which it owes a
turnover until it is in service again. The lost GPU-hours are these hours times its
GPUs. The slowest tenth of the turnovers are grouped by the stage that took longest
and by the class of its failures.`,
		Example: "  hostler decommission figures\n  hostler decommission figures --site dc1 --since 720h -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			from, err := a.timeFlag("since", since)
			if err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			f, err := remote.TurnoverFigures(c.Context(), site, from)
			if err != nil {
				return err
			}
			return a.show(f, nil, func(p *render.Page) { figuresPage(a, p, f) })
		},
	}
	c.Flags().StringVar(&site, "site", "", "only nodes of this site")
	c.Flags().StringVar(&since, "since", "", "from this `TIME` on: a date, RFC 3339, or an age such as 24h (default 7 days ago)")
	return c
}

func figuresPage(a *app, p *render.Page, f *api.TurnoverFigures) {
	tenths := func(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
	whole := func(v int64) string { return strconv.FormatInt(v, 10) }
	p.Fields("from", render.Time(f.From), "to", render.Time(f.To))
	if len(f.Sites) == 0 {
		a.note("no node was out because of a turnover")
	}
	sites, stages, slowest := [][]string{}, [][]string{}, [][]string{}
	for _, s := range f.Sites {
		sites = append(sites, []string{
			s.Site, whole(s.Turnovers), whole(s.Open), tenths(s.GPUHoursLost), tenths(s.NodeHoursLost),
			tenths(s.MedianMinutes), tenths(s.MostMinutes),
		})
	}
	for _, s := range f.Stages {
		stages = append(stages, []string{
			s.Mode, s.Stage, whole(s.Turnovers), whole(s.Attempts), whole(s.Failed), tenths(s.MeanMinutes),
			tenths(s.LongestMinutes),
		})
	}
	for _, s := range f.Slowest {
		slowest = append(slowest, []string{s.Stage, s.FailureClass, whole(s.Turnovers), tenths(s.Hours)})
	}
	resultTable(p, "Sites", []render.Column{
		render.Keep("SITE"), render.Keep("TURNOVERS"), render.Keep("OPEN"), render.Keep("GPU-HOURS LOST"),
		render.Main("NODE-HOURS LOST"), render.More("MEDIAN MIN"), render.Aside("MOST MIN"),
	}, sites)
	resultTable(p, "Stages", []render.Column{
		render.Keep("MODE"), render.Keep("STAGE"), render.Keep("TURNOVERS"), render.More("ATTEMPTS"),
		render.Keep("FAILED"), render.Main("MEAN MIN"), render.Aside("LONGEST MIN"),
	}, stages)
	resultTable(p, "The slowest tenth, by what it was spent on most", render.Kept("STAGE", "CLASS", "TURNOVERS", "HOURS"), slowest)
	if f.Truncated {
		a.note("there were more turnovers than are read at once: these are the last ones")
	}
}
