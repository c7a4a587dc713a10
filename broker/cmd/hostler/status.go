package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func statusCommand(a *app) *cobra.Command {
	var site string
	c := &cobra.Command{
		Use: "status", Short: "show what needs attention, with counts", Args: exactly(),
		Long: `Show on one screen what needs attention: frozen and unreachable sites, alerts, runs
that need an operator with the next action, quarantined nodes, nodes that differ
from MAAS, nodes whose agent or resolver profiles are behind, and what expires soon.
Counts follow below. Items that need no attention are left out.`,
		Example: "  hostler status\n  hostler status --site dc1 -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			s, err := remote.Status(c.Context(), site)
			if err != nil {
				return err
			}
			a.frozenShown = true // shown at the top of the page
			return a.show(s, []string{s.Version}, func(p *render.Page) {
				a.attentionPage(p, s)
				countsPage(p, remote, s)
			})
		},
	}
	c.Flags().StringVar(&site, "site", "", "only this site")
	return c
}

// attentionPage prints the sections about things that need attention; empty sections are omitted.
func (a *app) attentionPage(p *render.Page, s *api.Status) {
	section := func(list, title string, heads []render.Column, rows [][]string) {
		if len(rows) == 0 {
			return
		}
		p.Title(title)
		p.Table(heads, rows)
		if more := s.Omitted[list]; more > 0 {
			p.Line("… and " + strconv.FormatInt(more, 10) + " more")
		}
	}
	if len(s.Holds) > 0 {
		p.Title("Frozen or out of reach")
		holdTable(a, p, s.Holds)
	}
	rows := [][]string{}
	for _, al := range s.Alerts {
		rows = append(rows, []string{al.Code, render.Ago(al.Since, a.now()), al.Message})
	}
	section("alerts", "Alerts", []render.Column{render.Keep("CODE"), render.Main("SINCE"), render.Keep("MESSAGE")}, rows)
	rows = nil
	for _, r := range s.Runs {
		rows = append(rows, []string{
			strconv.FormatInt(r.Runs, 10), r.Kind, r.FailureClass, render.Ago(r.Since, a.now()),
			someNames(r.Examples, r.Runs), r.NextAction,
		})
	}
	section("runs", "Runs that need a person", []render.Column{
		render.Keep("RUNS"), render.Keep("KIND"), render.Keep("CLASS"), render.Main("SINCE"), render.Main("WHICH"),
		render.Keep("NEXT"),
	}, rows)
	rows = nil
	for _, n := range s.Quarantined {
		rows = append(rows, []string{n.Hostname, n.Site, render.Ago(n.UpdatedAt, a.now()), n.Reason})
	}
	section("quarantined", "Quarantined", []render.Column{
		render.Keep("NODE"), render.Main("SITE"), render.More("CHANGED"), render.Keep("BECAUSE"),
	}, rows)
	rows = nil
	for _, d := range s.Devices {
		rows = append(rows, []string{
			d.Hostname, d.Site, count(d.Missing), count(d.Unexpected), render.Ago(d.Since, a.now()),
			"hostler node device list " + d.NodeID,
		})
	}
	section("devices", "Missing or unexpected parts", []render.Column{
		render.Keep("NODE"), render.Main("SITE"), render.Keep("MISSING"), render.Keep("UNEXPECTED"),
		render.More("SINCE"), render.Keep("NEXT"),
	}, rows)
	rows = nil
	for _, d := range s.Drift {
		rows = append(rows, []string{d.Severity, d.Hostname, d.Site, d.Rule, d.MAASStatus, d.NodeStatus, render.Ago(d.FirstSeen, a.now())})
	}
	section("drift", "Different in MAAS", []render.Column{
		render.Keep("SEVERITY"), render.Keep("NODE"), render.More("SITE"), render.Main("RULE"), render.Main("MAAS"),
		render.Main("NODE IS"), render.More("SINCE"),
	}, rows)
	rows = nil
	for _, b := range s.Behind {
		rows = append(rows, []string{strconv.FormatInt(b.Nodes, 10), b.What, b.Has, b.Wants, someNames(b.Examples, b.Nodes)})
	}
	section("behind", "Behind", []render.Column{
		render.Keep("NODES"), render.Keep("IN"), render.Keep("HAVE"), render.Keep("SHALL HAVE"), render.Main("WHICH"),
	}, rows)
	rows = nil
	for _, e := range s.Expiring {
		rows = append(rows, []string{e.What, e.Name, e.Site, render.Ago(e.At, a.now())})
	}
	section("expiring", "Expired, or expires soon", []render.Column{
		render.Keep("WHAT"), render.Keep("NAME"), render.Main("SITE"), render.Keep("WHEN"),
	}, rows)
}

// someNames names some of many.
func someNames(names []string, of int64) string {
	list := strings.Join(names, " ")
	if of > int64(len(names)) {
		list += " …"
	}
	return list
}

func countsPage(p *render.Page, remote *client.Client, s *api.Status) {
	p.Blank()
	p.Fields("broker", remote.Broker(), "version", s.Version, "store", s.Store, "site", s.Site,
		"up", render.Span(s.Now.Sub(s.StartedAt)),
		"trust bundle", trustLine(s.TrustVersion, s.Stragglers),
		"agents", agentsLine(s.Agents), "agent packages", strconv.FormatInt(s.AgentReleases, 10))
	p.Title("Nodes")
	p.Table(render.Kept("STATUS", "NODES"), nodeCounts(s.Nodes, s.TurnoverOwed))
	p.Title("Open tasks")
	p.Table(render.Kept("STATUS", "TASKS"), [][]string{
		{"queued", strconv.FormatInt(s.OpenTasks["queued"], 10)},
		{"dispatched", strconv.FormatInt(s.OpenTasks["dispatched"], 10)},
	})
}
