package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func nodeAgentCommand(a *app) *cobra.Command {
	c := noun("agent-lifecycle", "show, update and repair a node's agent",
		"  hostler node agent-lifecycle gpu-07\n  hostler node agent-lifecycle list --drift",
		agentListCommand(a), agentSetCommand(a), agentStartCommand(a), agentRunsCommand(a), agentShowCommand(a), agentWatchCommand(a))
	for _, act := range agentActions {
		c.AddCommand(agentRuns.commandForOne(a, act))
	}
	c.Use = "agent-lifecycle [NODE]"
	c.Long = `Show the wanted release of a node's agent, the build that the agent reports, and the
result of the last delivery. An unknown build counts as drift.`
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		if err := exactly("NODE")(c, args); err != nil {
			return err
		}
		remote, err := a.connect()
		if err != nil {
			return err
		}
		l, err := remote.AgentLifecycle(c.Context(), args[0])
		if err != nil {
			return err
		}
		return a.showAgent(l)
	}
	return c
}

func (a *app) showAgent(l *api.AgentLifecycle) error {
	return a.show(l, []string{l.NodeID}, func(p *render.Page) {
		p.Fields("node", l.Hostname+" ("+l.NodeID+")", "site", l.Site, "status", l.Status,
			"agent", l.Badge+" ("+l.DriftState+")", "channel", l.AgentChannel, "wanted", l.DesiredAgentVersion, "floor", l.VersionFloor,
			"reported", l.ReportedAgentVersion, "commit", l.ReportedCommit, "program", l.ReportedDigest,
			"reported at", moment(a, l.ReportedAt),
			"the version before", l.PreviousAgentVersion, "skips", skipped(l.SkippedVersions),
			"delivered by", l.DesiredDeliveryMode, "last delivery", deliveryLine(a, *l), "of", l.LastDeliveryCorrelationID)
		for _, why := range l.DriftReasons {
			p.Line("drift: " + why)
		}
		if r := l.LatestRun; r != nil {
			p.Title("Latest run")
			_, rows := agentRuns.rows(a, []api.AgentLifecycleRun{*r})
			p.Table(agentRuns.heads, rows)
		}
	})
}

// skipped lists the versions that a node takes only by force: 1.4.0 (crash_loop).
func skipped(all []api.AgentSkipped) string {
	words := make([]string, len(all))
	for i, s := range all {
		words[i] = s.Version + " (" + s.Reason + ")"
	}
	return strings.Join(words, ", ")
}

// deliveryLine is the result of the last delivery: confirmed, 42 s, 3 minutes ago.
func deliveryLine(a *app, l api.AgentLifecycle) string {
	if l.LastDeliveryResult == "" {
		return ""
	}
	line := l.LastDeliveryResult
	if l.LastDeliveryReason != "" {
		line += " (" + l.LastDeliveryReason + ")"
	}
	if l.LastDeliverySeconds > 0 {
		line += ", " + strconv.FormatInt(l.LastDeliverySeconds, 10) + " s"
	}
	return line + ", " + render.Ago(l.LastDeliveryAttemptAt, a.now())
}

func agentListCommand(a *app) *cobra.Command {
	var site string
	var drift bool
	c := &cobra.Command{
		Use: "list", Short: "list agents with their wanted and reported releases", Args: exactly(),
		Example: "  hostler node agent-lifecycle list --drift\n  hostler node agent-lifecycle list --site dc1 -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.AgentLifecycles(c.Context(), site, drift)
			if err != nil {
				return err
			}
			ids, rows := []string{}, [][]string{}
			for _, i := range l.Items {
				ids = append(ids, i.NodeID)
				rows = append(rows, []string{
					i.NodeID, i.Hostname, i.Site, i.Badge, i.ReportedAgentVersion, i.DesiredAgentVersion,
					i.AgentChannel, deliveryLine(a, i),
				})
			}
			return a.show(l, ids, func(p *render.Page) {
				p.Line(agentsLine(l.Counts))
				p.Blank()
				p.Table([]render.Column{
					render.NodeID("ID"), render.Keep("HOSTNAME"), render.More("SITE"), render.Keep("AGENT"), render.Keep("RUNS"),
					render.Keep("WANTED"), render.More("CHANNEL"), render.Main("LAST DELIVERY"),
				}, rows)
			})
		},
	}
	c.Flags().StringVar(&site, "site", "", "only nodes of this site")
	c.Flags().BoolVar(&drift, "drift", false, "only agents that are not in sync, including unknown builds")
	return c
}

// agentsLine counts a fleet's agents.
func agentsLine(c api.AgentCounts) string {
	line := strconv.FormatInt(c.Current, 10) + " current, " + strconv.FormatInt(c.Drift, 10) + " drift"
	if c.Unknown > 0 {
		line += " (" + strconv.FormatInt(c.Unknown, 10) + " of an unknown build)"
	}
	return line
}

func agentSetCommand(a *app) *cobra.Command {
	var w api.AgentWant
	c := &cobra.Command{
		Use: "set NODE", Short: "set the channel of a node's agent, and how releases are delivered", Args: exactly("NODE"),
		Long: `Set the channel of a node's agent, and how releases are delivered (platform admin).
Nothing is started: a node that then differs from what is wanted counts as drift.`,
		Example: "  hostler node agent-lifecycle set gpu-07 --channel candidate\n  hostler node agent-lifecycle set gpu-07 --channel pinned --version 1.3.2 --reason 'ticket 4711'",
		RunE: func(c *cobra.Command, args []string) error {
			if w.AgentChannel == "" && w.PinnedVersion == "" && w.DesiredDeliveryMode == "" {
				return usage("use --channel, --version or --mode (see hostler help node agent-lifecycle set)")
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.WantAgent(c.Context(), args[0], w)
			if err != nil {
				return err
			}
			return a.showAgent(l)
		},
	}
	c.Flags().StringVar(&w.AgentChannel, "channel", "", "stable, candidate or pinned")
	c.Flags().StringVar(&w.PinnedVersion, "version", "", "`VERSION` for channel pinned")
	c.Flags().StringVar(&w.DesiredDeliveryMode, "mode", "", "reimage, manual_install or rebootstrap")
	reasonFlag(c, &w.Reason)
	return c
}
