package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func reconcileCommand(a *app) *cobra.Command {
	return noun("reconcile", "compare MAAS's machines with the nodes", "  hostler reconcile run dc1 --plan",
		reconcileRunCommand(a), reconcileStatusCommand(a))
}

func reconcileRunCommand(a *app) *cobra.Command {
	var plan bool
	c := &cobra.Command{
		Use: "run SITE", Short: "compare a site's machines with its nodes now", Args: exactly("SITE"),
		Long: `Compare a site's machines in MAAS with its nodes now, instead of within five
minutes. A drift is recorded, and acted upon where the site's rules say so, once two
looks in a row have found it; the second look follows within a minute by itself.

With --plan nothing is recorded and nothing is done: the command prints what a look
would lead to.`,
		Example: "  hostler reconcile run dc1\n  hostler reconcile run dc1 --plan",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			r, err := remote.Reconcile(c.Context(), args[0], plan)
			if err != nil {
				return err
			}
			var nodes []string
			for _, p := range r.Plan {
				nodes = append(nodes, p.NodeID)
			}
			if err := a.show(r, nodes, func(p *render.Page) { reconcilePage(a, p, r, plan) }); err != nil {
				return err
			}
			switch {
			case !r.Looked:
				return timedOut("the look at site %s has not ended yet (it continues: see hostler reconcile status --site %s)", r.Site,
					r.Site)
			case r.Trouble != "" && !plan:
				return broker.Errorf(broker.Unavailable, "maas_unread", "cannot reconcile site %s: %s", r.Site, r.Trouble)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&plan, "plan", false, "only show what a look would lead to")
	return c
}

func reconcilePage(a *app, p *render.Page, r *api.ReconciliationRun, plan bool) {
	if !plan {
		reconciliations(a, p, []api.SiteReconciliation{r.SiteReconciliation})
		return
	}
	rows := [][]string{}
	for _, d := range r.Plan {
		rows = append(rows, []string{d.Hostname, d.NodeStatus, d.MAASStatus, d.Severity, d.Rule, planWords(a, d)})
	}
	p.Table([]render.Column{
		render.Keep("NODE"), render.Keep("NODE IS"), render.Main("MAAS"), render.Keep("SEVERITY"),
		render.More("RULE"), render.Keep("WOULD BE DONE"),
	}, rows)
	if len(rows) == 0 {
		a.note("MAAS and the nodes of site %s agree", r.Site)
	}
	for _, d := range r.Plan {
		if d.StoppedBy != "" {
			a.note("stopped: %s", d.StoppedBy)
			break
		}
	}
}

// planWords describes the planned reaction to a drift.
func planWords(a *app, d api.PlannedDrift) string {
	switch {
	case d.StoppedBy != "":
		return "nothing: too many at once"
	case !d.Acts || d.Action == "tell":
		return "nothing but the alert"
	case d.ActsAfter.After(a.now()):
		return d.Action + " " + render.Ago(d.ActsAfter, a.now())
	}
	return d.Action
}

func reconcileStatusCommand(a *app) *cobra.Command {
	var site string
	c := &cobra.Command{
		Use: "status", Short: "show whether MAAS and the nodes agree, site by site", Args: exactly(),
		Example: "  hostler reconcile status",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			s, err := remote.ReconciliationStatus(c.Context(), site)
			if err != nil {
				return err
			}
			var names []string
			for _, r := range s.Sites {
				names = append(names, r.Site)
			}
			return a.show(s, names, func(p *render.Page) { reconciliations(a, p, s.Sites) })
		},
	}
	c.Flags().StringVar(&site, "site", "", "only this site")
	return c
}

func reconciliations(a *app, p *render.Page, all []api.SiteReconciliation) {
	rows := [][]string{}
	for _, r := range all {
		looked := "never"
		if !r.CompleteAt.IsZero() {
			looked = render.Ago(r.CompleteAt, a.now())
		}
		rows = append(rows, []string{
			r.Site, r.Status, count(r.Nodes), count(r.OK), count(r.Drifted), count(r.InHand),
			count(r.Unreconciled), count(r.Machines), count(r.Unmanaged), looked, r.Trouble,
		})
	}
	p.Table([]render.Column{
		render.Keep("SITE"), render.Keep("STATUS"), render.More("NODES"), render.Aside("OK"), render.Keep("DRIFTED"),
		render.More("IN HAND"), render.Keep("UNRECONCILED"), render.Aside("MACHINES"), render.Aside("NOBODY'S"),
		render.More("READ"), render.Keep("TROUBLE"),
	}, rows)
	rows = nil
	for _, r := range all {
		for _, s := range r.Stops {
			rows = append(rows, []string{r.Site, s.Code, render.Ago(s.Since, a.now()), s.Text})
		}
	}
	if len(rows) > 0 {
		p.Title("Stopped")
		p.Table([]render.Column{render.Keep("SITE"), render.Keep("CODE"), render.Main("SINCE"), render.Keep("BECAUSE")}, rows)
	}
}

func driftCommand(a *app) *cobra.Command {
	return noun("drift", "differences between nodes and their machines in MAAS", "  hostler drift list --site dc1",
		driftListCommand(a), driftResolveCommand(a))
}

func driftPage(a *app, p *render.Page, all []api.Drift) {
	rows := [][]string{}
	for _, d := range all {
		rows = append(rows, []string{
			d.Severity, d.Hostname, d.Site, d.Rule, d.LastMAASStatus, d.NodeStatus, d.Mode, reactionText(a, d),
			render.Ago(d.FirstSeen, a.now()), d.Text,
		})
	}
	p.Table([]render.Column{
		render.Keep("SEVERITY"), render.Keep("NODE"), render.More("SITE"), render.Main("RULE"), render.Main("MAAS"),
		render.Main("NODE IS"), render.Aside("MODE"), render.More("DONE"), render.Aside("SINCE"), render.Keep("WHAT"),
	}, rows)
}

// reactionText describes the reaction to a drift, or when it will come.
func reactionText(a *app, d api.Drift) string {
	switch {
	case !d.Open:
		return "resolved by " + d.ResolvedBy + ": " + d.Resolution
	case d.Acts > 0:
		return strings.TrimSpace(d.Action + " " + render.Ago(d.ActedAt, a.now()) + " " + d.Work)
	case !d.ActsAfter.IsZero():
		return d.Action + " " + render.Ago(d.ActsAfter, a.now())
	}
	return ""
}
