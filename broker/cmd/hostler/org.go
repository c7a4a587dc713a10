package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func orgCommand(a *app) *cobra.Command {
	return noun("org", "organisations: the tenants of the platform", "  hostler org list",
		orgCreateCommand(a), orgListCommand(a), orgShowCommand(a), orgEndCommand(a))
}

func orgCreateCommand(a *app) *cobra.Command {
	var o api.OrganisationCreate
	c := &cobra.Command{
		Use: "create NAME", Short: "create an organisation", Args: exactly("NAME"),
		Long: `Create an organisation: a tenant with projects and members. Its name is unique among
the live organisations.`,
		Example: "  hostler org create acme --reason 'contract 17'",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			o.Name = args[0]
			made, err := remote.CreateOrganisation(c.Context(), o)
			if err != nil {
				return err
			}
			return a.showOrg(made)
		},
	}
	reasonFlag(c, &o.Reason)
	return c
}

func orgListCommand(a *app) *cobra.Command {
	var ended bool
	c := &cobra.Command{
		Use: "list", Short: "list organisations", Args: exactly(), Example: "  hostler org list\n  hostler org list --ended",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			all, err := remote.Organisations(c.Context(), ended)
			if err != nil {
				return err
			}
			names, rows := []string{}, [][]string{}
			for _, o := range all {
				names = append(names, o.ID)
				rows = append(rows, []string{o.ID, o.Name, endState(o.EndedAt), render.Ago(o.CreatedAt, a.now())})
			}
			return a.show(api.OrganisationList{Items: all}, names, func(p *render.Page) {
				p.Table([]render.Column{render.ID("ID"), render.Keep("NAME"), render.Keep("STATE"), render.Aside("CREATED")}, rows)
				if len(rows) == 0 {
					a.note("no organisations (create one: hostler org create)")
				}
			})
		},
	}
	endedFlag(c, &ended)
	return c
}

func orgShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show ORG", Short: "show an organisation", Args: exactly("ORG"), Example: "  hostler org show acme",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			o, err := remote.Organisation(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.showOrg(o)
		},
	}
}

func orgEndCommand(a *app) *cobra.Command {
	return endCommand(a, "org", "ORG", "organisation", "acme", `End an organisation. An organisation with live projects or members is refused. Its
record stays, and its name can be given again.`,
		func(c *cobra.Command, ref, reason string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			o, err := remote.EndOrganisation(c.Context(), ref, reason)
			if err != nil {
				return err
			}
			return a.showOrg(o)
		})
}

// endCommand makes the verb end of a noun of tenants: with a reason, after a question.
func endCommand(a *app, noun, arg, what, example, long string, end func(c *cobra.Command, ref, reason string) error) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "end " + arg + " --reason R", Short: "end the " + what, Long: long, Args: exactly(arg),
		Example: "  hostler " + noun + " end " + example + " --reason 'contract 17 ended' --yes",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			if err := a.confirm(c, "end %s %s?", what, args[0]); err != nil {
				return err
			}
			return end(c, args[0], reason)
		},
	}
	yesFlag(c)
	reasonFlag(c, &reason)
	return c
}

func endedFlag(c *cobra.Command, ended *bool) {
	c.Flags().BoolVar(ended, "ended", false, "list what has ended, too")
}

func (a *app) showOrg(o *api.Organisation) error {
	return a.show(o, []string{o.ID}, func(p *render.Page) {
		p.Fields("id", o.ID, "name", o.Name, "state", endState(o.EndedAt), "created", moment(a, o.CreatedAt), "ended", endMoment(a, o.EndedAt))
	})
}

func endState(at *time.Time) string {
	if at == nil {
		return "live"
	}
	return "ended"
}

func endMoment(a *app, at *time.Time) string {
	if at == nil {
		return "-"
	}
	return moment(a, *at)
}
