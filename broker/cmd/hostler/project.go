package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func projectCommand(a *app) *cobra.Command {
	return noun("project", "projects of organisations", "  hostler project list --org acme",
		projectCreateCommand(a), projectListCommand(a), projectShowCommand(a),
		projectUpdateCommand(a), projectBindCommand(a), projectEndCommand(a))
}

func projectCreateCommand(a *app) *cobra.Command {
	var p api.ProjectCreate
	var org string
	c := &cobra.Command{
		Use: "create NAME --org ORG", Short: "create a project of an organisation", Args: exactly("NAME"),
		Long: `Create a project. Its name is unique among the live projects of the organisation. A
new project may have nothing, until its quotas are set (hostler quota set).`,
		Example: "  hostler project create lab --org acme",
		RunE: func(c *cobra.Command, args []string) error {
			if org == "" {
				return usage("no organisation is named (use --org ORG)")
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			p.Name = args[0]
			made, err := remote.CreateProject(c.Context(), org, p)
			if err != nil {
				return err
			}
			return a.showProject(made)
		},
	}
	orgFlag(c, &org, "the project's organisation")
	reasonFlag(c, &p.Reason)
	return c
}

func projectListCommand(a *app) *cobra.Command {
	var ended bool
	var org string
	c := &cobra.Command{
		Use: "list", Short: "list projects", Args: exactly(), Example: "  hostler project list --org acme",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			all, err := remote.Projects(c.Context(), org, ended)
			if err != nil {
				return err
			}
			names, rows := []string{}, [][]string{}
			for _, p := range all {
				names = append(names, p.ID)
				rows = append(rows, []string{p.ID, p.Name, p.OrganisationID, endState(p.EndedAt), render.Ago(p.CreatedAt, a.now())})
			}
			return a.show(api.ProjectList{Items: all}, names, func(p *render.Page) {
				p.Table([]render.Column{
					render.ID("ID"), render.Keep("NAME"), render.Main("ORGANISATION"), render.Keep("STATE"), render.Aside("CREATED"),
				}, rows)
				if len(rows) == 0 {
					a.note("no projects (create one: hostler project create)")
				}
			})
		},
	}
	orgFlag(c, &org, "only projects of this organisation")
	endedFlag(c, &ended)
	return c
}

func projectShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show PROJECT", Short: "show a project", Args: exactly("PROJECT"),
		Long: `Show a project. A PROJECT is an id, a name, or ORGANISATION/NAME where several
organisations have a project of that name.`,
		Example: "  hostler project show acme/lab",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			p, err := remote.Project(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.showProject(p)
		},
	}
}

func projectUpdateCommand(a *app) *cobra.Command {
	var u api.ProjectUpdate
	var order string
	var labels []string
	c := &cobra.Command{
		Use: "update PROJECT", Short: "change which nodes a project is given", Args: exactly("PROJECT"),
		Long: `Change which nodes the allocations of a project get from now on. With --node-label a
node is given only if it has the label (hostler node label). Labels that were set
before stay, and KEY= removes one. With --placement-order the free nodes come in this order,
whatever the policy of their site says; "" is the site's again. What the project
holds stays.`,
		Example: "  hostler project update acme/lab --node-label tier=gold --reason 'contract 17'\n  hostler project update acme/lab --placement-order least_used\n" +
			"  hostler project update acme/lab --node-label tier=",
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("placement-order") {
				u.PlacementOrder = &order
			}
			var ok bool
			if u.NodeLabels, ok = client.Labels(labels); !ok {
				return usage("--node-label takes key=value")
			}
			if u.PlacementOrder == nil && len(labels) == 0 {
				return usage("nothing to change is given (use --node-label or --placement-order)")
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			p, err := remote.UpdateProject(c.Context(), args[0], u)
			if err != nil {
				return err
			}
			return a.showProject(p)
		},
	}
	c.Flags().StringVar(&order, "placement-order", "", "`ORDER` of the free nodes: node_id, newest_certificate or least_used; empty: the site's")
	c.Flags().StringArrayVar(&labels, "node-label", nil, "label that each node must have, `KEY=VALUE` (may be repeated)")
	reasonFlag(c, &u.Reason)
	return c
}

func projectEndCommand(a *app) *cobra.Command {
	return endCommand(a, "project", "PROJECT", "project", "acme/lab", `End a project. A project with live members is refused. Its record stays, and its name
can be given again.`,
		func(c *cobra.Command, ref, reason string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			p, err := remote.EndProject(c.Context(), ref, reason)
			if err != nil {
				return err
			}
			return a.showProject(p)
		})
}

func orgFlag(c *cobra.Command, org *string, help string) {
	c.Flags().StringVar(org, "org", "", help+", `ORG`: an id or a name")
}

func (a *app) showProject(p *api.Project) error {
	return a.show(p, []string{p.ID}, func(page *render.Page) {
		fields := []string{
			"id", p.ID, "name", p.Name, "organisation", p.OrganisationID, "state", endState(p.EndedAt),
			"created", moment(a, p.CreatedAt), "ended", endMoment(a, p.EndedAt),
			"on begin", boundText(p.OnBegin, "what the SKU names"), "on end", boundText(p.OnEnd, "what the SKU names"),
		}
		if p.Placement != nil {
			fields = append(fields, "placement order", cmp.Or(p.Placement.PlacementOrder, "the site's"))
		}
		page.Fields(fields...)
		if p.Placement != nil && len(p.Placement.NodeLabels) > 0 {
			pairs(page, "Labels that each node must have", p.Placement.NodeLabels)
		}
		a.noteJudgedLater(p.JudgedLater)
	})
}
