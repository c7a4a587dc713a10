package main

import (
	"fmt"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

// build is what this program is.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print this program's version", Args: exactly(),
		Example: "  hostler version -o json",
		RunE: func(*cobra.Command, []string) error {
			b := build{Version: version, Commit: commit, Go: runtime.Version()}
			return a.show(b, []string{b.Version}, func(p *render.Page) {
				p.Line(fmt.Sprintf("hostler %s (commit %s, %s)", b.Version, b.Commit, b.Go))
			})
		},
	}
}

func statusCommand(a *app) *cobra.Command {
	var site string
	c := &cobra.Command{
		Use: "status", Short: "show the system at a glance", Args: exactly(),
		Example: "  hostler status\n  hostler status --site dc1 -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := a.connect()
			if err != nil {
				return err
			}
			s, err := api.Status(c.Context(), site)
			if err != nil {
				return err
			}
			return a.show(s, []string{s.Version}, func(p *render.Page) {
				p.Fields("broker", api.Broker(), "version", s.Version, "store", s.Store, "site", s.Site,
					"up", render.Span(s.Now.Sub(s.StartedAt)),
					"trust bundle", trustLine(s.TrustVersion, s.Stragglers),
					"agent packages", strconv.FormatInt(s.AgentReleases, 10))
				p.Title("Nodes")
				p.Table([]string{"STATUS", "NODES"}, nodeCounts(s.Nodes, s.TurnoverOwed))
				p.Title("Open tasks")
				p.Table([]string{"STATUS", "TASKS"}, [][]string{
					{"queued", strconv.FormatInt(s.OpenTasks["queued"], 10)},
					{"dispatched", strconv.FormatInt(s.OpenTasks["dispatched"], 10)},
				})
				if len(s.Alerts) > 0 {
					p.Title("Alerts")
					rows := [][]string{}
					for _, al := range s.Alerts {
						rows = append(rows, []string{al.Code, render.Ago(al.Since, a.now()), al.Message})
					}
					p.Table([]string{"CODE", "SINCE", "MESSAGE"}, rows)
				}
			})
		},
	}
	c.Flags().StringVar(&site, "site", "", "count the nodes of this site only")
	return c
}

// nodeCounts has a row for each status with nodes, in the order of a node's
// life.
func nodeCounts(counts map[string]int64, owed int64) [][]string {
	rows, total := [][]string{}, int64(0)
	for _, st := range broker.NodeStatuses {
		if n := counts[string(st)]; n > 0 {
			rows = append(rows, []string{string(st), strconv.FormatInt(n, 10)})
			total += n
		}
	}
	rows = append(rows, []string{"all", strconv.FormatInt(total, 10)})
	if owed > 0 {
		rows = append(rows, []string{"turnover owed", strconv.FormatInt(owed, 10)})
	}
	return rows
}

func trustLine(version, stragglers int64) string {
	line := "version " + strconv.FormatInt(version, 10)
	if stragglers > 0 {
		line += fmt.Sprintf(", not yet confirmed by %s (see hostler trust show)", plural(int(stragglers), "node"))
	}
	return line
}
