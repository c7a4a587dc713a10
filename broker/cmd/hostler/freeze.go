package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func freezeCommand(a *app) *cobra.Command {
	var p api.FreezePut
	c := &cobra.Command{
		Use: "freeze --reason R", Short: "freeze a site or all sites: no new work starts", Args: exactly(),
		Long: `Freeze a site or all sites. Until the freeze is lifted, no stage of a run starts, no
destructive task is delivered to a node and no rollout advances. Heartbeats,
renewals and other tasks continue, and work in progress finishes. A freeze outlasts
restarts of the broker.

Every operator may freeze. Freezes stack: you can also freeze a site that another
operator has frozen, and work resumes only when all freezes are lifted (hostler
unfreeze).`,
		Example: "  hostler freeze --site dc1 --reason 'coolant leak in row 4'\n  hostler freeze --reason 'wrong erase policy' && hostler freeze status",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.changeFreeze(c, p, func(remote *client.Client) (*api.FreezeResult, error) { return remote.Freeze(c.Context(), p) },
				func(r *api.FreezeResult) {
					if !r.Changed {
						a.note("already frozen: %s, by %s: %s", siteWords(r.Site), r.By, r.Reason)
					}
					for _, h := range r.Standing {
						if h != r.Hold {
							a.note("also frozen: %s, by %s: %s", siteWords(h.Site), h.By, h.Reason)
						}
					}
					if under := underWay(r.UnderWay); under != "" {
						a.note("%s still under way", under)
					}
				})
		},
	}
	freezeFlags(c, &p)
	c.AddCommand(freezeStatusCommand(a))
	return c
}

func unfreezeCommand(a *app) *cobra.Command {
	var p api.UnfreezePut
	c := &cobra.Command{
		Use: "unfreeze --reason R", Short: "lift your freezes; waiting runs resume, spread out over time", Args: exactly(),
		Long: `Lift your own freezes of a site, or your freezes of all sites. The two kinds are
lifted separately: a site that was frozen by name stays frozen when the freeze of
all sites is lifted. Freezes of other operators stay until those operators lift
them; the command lists the remaining freezes. A platform admin lifts everybody's
freezes with --force.`,
		Example: "  hostler unfreeze --site dc1 --reason 'leak repaired'\n  hostler freeze status && hostler unfreeze --force --site dc1 --reason 'olga is on leave; leak repaired'",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.changeFreeze(c, p.FreezePut, func(remote *client.Client) (*api.FreezeResult,
				error,
			) {
				return remote.Unfreeze(c.Context(), p)
			}, func(r *api.FreezeResult) {
				if !r.Changed {
					a.note("there is no freeze of %s itself (see hostler freeze status)", siteWords(r.Site))
				}
				for _, h := range r.Standing {
					a.note("still frozen: %s, by %s: %s", siteWords(h.Site), h.By, h.Reason)
				}
			})
		},
	}
	freezeFlags(c, &p.FreezePut)
	c.Flags().BoolVar(&p.Force, "force", false, "also lift other operators' freezes (platform_admin)")
	return c
}

func freezeFlags(c *cobra.Command, p *api.FreezePut) {
	c.Flags().StringVar(&p.Site, "site", "", "only this site; without it, all sites")
	c.Flags().StringVar(&p.Reason, "reason", "", "reason, for the operators on call and the audit log")
}

func (a *app) changeFreeze(
	c *cobra.Command, p api.FreezePut, ask func(*client.Client) (*api.FreezeResult, error), say func(*api.FreezeResult),
) error {
	if err := needReason(p.Reason); err != nil {
		return err
	}
	if c.Flags().Changed("site") && p.Site == "" {
		return usage("--site is empty (leave it out for all sites)")
	}
	remote, err := a.connect()
	if err != nil {
		return err
	}
	r, err := ask(remote)
	if err != nil {
		return err
	}
	if err := a.show(r, []string{siteCell(r.Site)}, func(pg *render.Page) {
		switch {
		case c.Name() == "freeze":
			holdTable(a, pg, []api.Hold{r.Hold})
		case r.Changed:
			pg.Title("Lifted freezes")
			holdTable(a, pg, r.Lifted)
		}
	}); err != nil {
		return err
	}
	say(r)
	return nil
}

func freezeStatusCommand(a *app) *cobra.Command {
	var site string
	c := &cobra.Command{
		Use: "status", Short: "show frozen and unreachable sites, and work in progress", Args: exactly(),
		Example: "  hostler freeze status",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			s, err := remote.FreezeStatus(c.Context(), site)
			if err != nil {
				return err
			}
			a.frozenShown = true
			sites := []string{}
			for _, h := range s.Holds {
				if site := siteCell(h.Site); !slices.Contains(sites, site) { // freezes stack
					sites = append(sites, site)
				}
			}
			return a.show(s, sites, func(p *render.Page) {
				holdTable(a, p, s.Holds)
				switch under := underWay(s.UnderWay); {
				case len(s.Holds) == 0:
					a.note("nothing is frozen")
				case under != "":
					a.note("%s under way", under)
				}
			})
		},
	}
	c.Flags().StringVar(&site, "site", "", "only this site, and freezes of all sites")
	return c
}

func holdTable(a *app, p *render.Page, holds []api.Hold) {
	rows := [][]string{}
	for _, h := range holds {
		rows = append(rows, []string{siteCell(h.Site), h.Kind, render.Ago(h.Since, a.now()), h.By, h.Reason})
	}
	p.Table([]render.Column{render.Keep("SITE"), render.Keep("WHAT"), render.Main("SINCE"), render.More("BY"), render.Keep("REASON")}, rows)
}

// siteCell is a site in a table; * means all sites.
func siteCell(site string) string {
	if site == "" {
		return "*"
	}
	return site
}

func siteWords(site string) string {
	if site == "" || site == "*" {
		return "all sites"
	}
	return "site " + site
}

func underWay(u api.UnderWay) string {
	var parts []string
	if u.DestructiveTasks > 0 {
		parts = append(parts, plural(int(u.DestructiveTasks), "destructive task"))
	}
	if u.Stages > 0 {
		parts = append(parts, plural(int(u.Stages), "stage"))
	}
	return strings.Join(parts, " and ")
}

// showFrozen prints the freezes above the output.
func (a *app) showFrozen() {
	if a.frozenShown || a.contacted == nil || a.contacted.api == nil {
		return
	}
	sites := a.contacted.api.Frozen()
	if len(sites) == 0 {
		return
	}
	a.frozenShown = true
	for i, s := range sites {
		sites[i] = siteWords(s)
	}
	a.note("FROZEN: %s (hostler freeze status shows by whom, and why)", strings.Join(sites, ", "))
}
