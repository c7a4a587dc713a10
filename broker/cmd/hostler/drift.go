package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func driftListCommand(a *app) *cobra.Command {
	var f client.DriftFilter
	c := &cobra.Command{
		Use: "list", Short: "list open drifts", Args: exactly(),
		Example: "  hostler drift list --site dc1 --severity critical\n  hostler drift list --resolved",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.Drifts(c.Context(), f)
			if err != nil {
				return err
			}
			var nodes []string
			for _, d := range l.Items {
				nodes = append(nodes, d.NodeID)
			}
			return a.show(l, nodes, func(p *render.Page) { driftPage(a, p, l.Items) })
		},
	}
	c.Flags().StringVar(&f.Site, "site", "", "only this site")
	c.Flags().StringVar(&f.Rule, "rule", "", "only this rule (hostler site reconcile show lists the rules)")
	c.Flags().StringVar(&f.Severity, "severity", "", "critical, high, medium or low")
	c.Flags().BoolVar(&f.Resolved, "resolved", false, "show drifts resolved within the last week instead")
	return c
}

func driftResolveCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "resolve NODE --reason R", Short: "mark a node's drift as resolved", Args: exactly("NODE"),
		Long: `Mark a node's drift as resolved. The status of the node and its machine stay
unchanged. A drift that still exists is detected again, with one exception: a
retired node whose machine is still deployed (retired_deployed) is left alone for as
long as it stays retired.`,
		Example: "  hostler drift resolve gpu-07 --reason 'released for a new board, ticket 4711'",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			d, err := remote.ResolveDrift(c.Context(), args[0], reason)
			if err != nil {
				return err
			}
			return a.show(d, []string{d.NodeID}, func(p *render.Page) { driftPage(a, p, []api.Drift{*d}) })
		},
	}
	reasonFlag(c, &reason)
	return c
}

func siteReconcileCommand(a *app) *cobra.Command {
	return noun("reconcile", "a site's rules for drift", "  hostler site reconcile show dc1",
		siteReconcileShowCommand(a), siteReconcileSetCommand(a))
}

func siteReconcileShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show SITE", Short: "show the rules, and the mode of each at a site", Args: exactly("SITE"),
		Example: "  hostler site reconcile show dc1",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			s, err := remote.ReconcilePolicy(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.showReconcilePolicy(s)
		},
	}
}

func siteReconcileSetCommand(a *app) *cobra.Command {
	var put api.SiteReconcilePolicyPut
	var share, least, atOnce int
	var confirm, grace time.Duration
	c := &cobra.Command{
		Use: "set SITE [RULE=observe|act|off …] --reason R", Short: "set what is done about drift at a site",
		Long: `Set what is done about drift at a site. observe records and announces a drift, act
also performs the rule's action, off ignores the rule. Rules that are not named stay
unchanged.

With retired_deployed=act a decommission run takes retired nodes out of the fleet
and returns their machines to MAAS, including nodes that were retired only for a
while.`,
		Example: "  hostler site reconcile set dc1 released=act absent=act --reason 'observed for a week'\n  hostler site reconcile set dc1 --max-share 20 --reason 'small site'",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exactly("SITE")(c, args)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			for _, pair := range args[1:] {
				rule, mode, ok := strings.Cut(pair, "=")
				if !ok || rule == "" || mode == "" {
					return usage("%q is not RULE=observe, RULE=act or RULE=off", pair)
				}
				if put.Modes == nil {
					put.Modes = map[string]string{}
				}
				put.Modes[rule] = mode
			}
			said := func(name string, into **int, v int) {
				if c.Flags().Changed(name) {
					*into = &v
				}
			}
			said("max-share", &put.MaxSharePercent, share)
			said("at-least", &put.AtLeast, least)
			said("confirm", &put.ConfirmSeconds, int(confirm.Seconds()))
			said("retired-grace", &put.RetiredGraceSeconds, int(grace.Seconds()))
			said("decommissions-at-once", &put.DecommissionsAtOnce, atOnce)
			if len(put.Modes) == 0 && put.MaxSharePercent == nil && put.AtLeast == nil && put.ConfirmSeconds == nil &&
				put.RetiredGraceSeconds == nil && put.DecommissionsAtOnce == nil {
				return usage("nothing to change is given (see hostler help site reconcile set)")
			}
			if err := needReason(put.Reason); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			s, err := remote.SetReconcilePolicy(c.Context(), args[0], put)
			if err != nil {
				return err
			}
			return a.showReconcilePolicy(s)
		},
	}
	f := c.Flags()
	f.IntVar(&share, "max-share", 0, "`PERCENT` of the site's nodes: if more would change in the same way at once, none is changed")
	f.IntVar(&least, "at-least", 0, "the share applies from this number of `NODES` on")
	f.DurationVar(&confirm, "confirm", 0, "`TIME` between the two looks that confirm a drift, such as 30s")
	f.DurationVar(&grace, "retired-grace", 0, "`TIME` before the machine of a retired node is returned to MAAS, such as 48h")
	f.IntVar(&atOnce, "decommissions-at-once", 0, "number of `NODES` whose machines are returned at a time")
	reasonFlag(c, &put.Reason)
	return c
}

func (a *app) showReconcilePolicy(s *api.SiteReconcilePolicy) error {
	names, rows := []string{}, [][]string{}
	for _, r := range s.Rules {
		names = append(names, r.Rule)
		node := strings.Join(r.Nodes, ", ")
		if node == "" {
			node = "(none)"
		}
		rows = append(rows, []string{r.Rule, r.Mode, r.MAAS, node, r.Severity, r.Action, r.Alert})
	}
	return a.show(s, names, func(p *render.Page) {
		p.Fields("site", s.Site, "at most at once", strconv.Itoa(s.MaxSharePercent)+"% of its nodes, from "+strconv.Itoa(s.AtLeast)+
			" nodes on",
			"two looks", render.Span(time.Duration(s.ConfirmSeconds)*time.Second)+" apart at least",
			"retired nodes", "left alone for "+render.Span(time.Duration(s.RetiredGraceSeconds)*time.Second)+", then "+
				strconv.Itoa(s.DecommissionsAtOnce)+" at a time")
		p.Title("Rules")
		p.Table([]render.Column{
			render.Keep("RULE"), render.Keep("MODE"), render.Main("MAAS"), render.Main("NODE"), render.Keep("SEVERITY"),
			render.Main("ACTION"), render.Keep("ALERT"),
		}, rows)
	})
}
