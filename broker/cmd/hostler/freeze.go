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
		Use: "freeze --reason R", Short: "stop a site, or all of them: nothing new begins", Args: exactly(),
		Long: `Stop a site, or all of them. Until it is lifted no stage of a run begins, no
destructive task is handed to a node and no rollout goes on. Heartbeats, renewals
and other tasks go on, and what runs already finishes. It holds over restarts.

Every operator may freeze. Freezes stack: a site that another froze is frozen by
you too, and goes on only when all of you have let go (hostler unfreeze).`,
		Example: "  hostler freeze --site dc1 --reason 'coolant leak in row 4'\n  hostler freeze --reason 'wrong erase policy' && hostler freeze status",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.changeFreeze(c, p, func(remote *client.Client) (*api.FreezeResult, error) { return remote.Freeze(c.Context(), p) }, func(r *api.FreezeResult) {
				if !r.Changed {
					a.note("frozen already: %s, by %s: %s", siteWords(r.Site), r.By, r.Reason)
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
		Use: "unfreeze --reason R", Short: "lift your freezes; what waited goes on, spread out", Args: exactly(),
		Long: `Lift your own freezes of a site, or those of all sites. Each kind is lifted by
itself: a site that was frozen by name stays so when the one of all is lifted.
What others froze stands until they let go, and what is left is said. A platform
admin lifts everybody's with --force.`,
		Example: "  hostler unfreeze --site dc1 --reason 'leak mended'\n  hostler freeze status && hostler unfreeze --force --site dc1 --reason 'olga is on leave; leak mended'",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.changeFreeze(c, p.FreezePut, func(remote *client.Client) (*api.FreezeResult, error) { return remote.Unfreeze(c.Context(), p) }, func(r *api.FreezeResult) {
				if !r.Changed {
					a.note("not frozen by that name: %s (see hostler freeze status)", siteWords(r.Site))
				}
				for _, h := range r.Standing {
					a.note("still frozen: %s, by %s: %s", siteWords(h.Site), h.By, h.Reason)
				}
			})
		},
	}
	freezeFlags(c, &p.FreezePut)
	c.Flags().BoolVar(&p.Force, "force", false, "lift what others placed too (platform admins)")
	return c
}

func freezeFlags(c *cobra.Command, p *api.FreezePut) {
	c.Flags().StringVar(&p.Site, "site", "", "this site; without it, all of them")
	c.Flags().StringVar(&p.Reason, "reason", "", "why: those on call read it, and the audit log keeps it")
}

func (a *app) changeFreeze(c *cobra.Command, p api.FreezePut, ask func(*client.Client) (*api.FreezeResult, error), say func(*api.FreezeResult)) error {
	if err := needReason(p.Reason); err != nil {
		return err
	}
	if c.Flags().Changed("site") && p.Site == "" {
		return usage("--site names no site (leave it out for all of them)")
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
			pg.Title("Lifted: these freezes hold no more")
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
		Use: "status", Short: "show what is frozen or cannot be reached, and what is still under way", Args: exactly(),
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
			a.frozenSaid = true
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
	c.Flags().StringVar(&site, "site", "", "only this site, and what holds for all")
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

// sayFrozen prints the freezes above the output.
func (a *app) sayFrozen() {
	if a.frozenSaid || a.spoken == nil || a.spoken.api == nil {
		return
	}
	sites := a.spoken.api.Frozen()
	if len(sites) == 0 {
		return
	}
	a.frozenSaid = true
	for i, s := range sites {
		sites[i] = siteWords(s)
	}
	a.note("FROZEN: %s (hostler freeze status says by whom, and why)", strings.Join(sites, ", "))
}
