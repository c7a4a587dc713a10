package main

import (
	"cmp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func tokenCommand(a *app) *cobra.Command {
	return noun("token", "bearer tokens of operators and programs", "  hostler token list",
		tokenCreateCommand(a), tokenListCommand(a), tokenRevokeCommand(a))
}

func tokenCreateCommand(a *app) *cobra.Command {
	var t api.TokenCreate
	var ttl time.Duration
	c := &cobra.Command{
		Use:   "create --name N (--role R | --member MEMBER)",
		Short: "create a token, and print its secret once",
		Long: `Create a bearer token, and print its secret: the only line on stdout, shown once and
never stored. Redirect it to a file that its owner alone can read (umask 077).

The name is the actor in the audit log, so give each person and each program its own
token. Bind it to the sites that it needs. A token cannot be changed: to rotate it,
create another under a new name, and revoke the old one.

A role of tenants (tenant_admin, project_admin, project_member, project_viewer) holds
at an organisation or a project alone; its bearer becomes a member there. A further
token of a member (--member) has the member's role and place, and ends with the member.

The first token of a broker, and one where none is left, is made by hostler-broker
token create.`,
		Example: `  hostler token create --name ci --role viewer --site dc1 --ttl 720h --reason 'dashboard of dc1' > ci.token
  hostler token create --name ada --role project_member --project acme/lab --reason 'new member' > ada.token
  hostler token create --name ada-ci --member mem-019c4e6a2f1k7m2q4s6t8w --reason 'pipelines of ada' > ada-ci.token`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if t.Name == "" || (t.Role == "") == (t.Member == "") {
				return usage("no token is described (use --name N and --role R, or --name N and --member MEMBER)")
			}
			if t.Organisation != "" && t.Project != "" {
				return usage("use only one of --org and --project (a project may be ORGANISATION/NAME)")
			}
			if err := needReason(t.Reason); err != nil {
				return err
			}
			t.TTLSeconds = int64(ttl / time.Second)
			remote, err := a.connect()
			if err != nil {
				return err
			}
			made, err := remote.CreateToken(c.Context(), t)
			if err != nil {
				return err
			}
			a.note("token %s (%s, %s) is valid until %s; its secret is shown only once", made.Token.Name, made.Token.Role,
				tokenPlace(made.Token), render.Time(made.Token.ExpiresAt))
			if a.output == "json" || a.output == "yaml" {
				return a.show(made, nil, nil)
			}
			return a.print(strings.NewReader(made.Secret + "\n"))
		},
	}
	f := c.Flags()
	f.StringVar(&t.Name, "name", "", "who uses the token: the actor in the audit log")
	f.StringVar(&t.Role, "role", "", "platform_admin, operator or viewer; or a role of tenants, with --org or --project")
	orgFlag(c, &t.Organisation, "the organisation at which a role of tenants holds")
	f.StringVar(&t.Project, "project", "", "the project at which a role of tenants holds, `PROJECT`: an id, a name, or ORGANISATION/NAME")
	f.StringVar(&t.Member, "member", "", "the id of the `MEMBER` whose further token this is")
	f.StringArrayVar(&t.Sites, "site", nil, "bind the token to a `SITE` (may be repeated; default: all sites)")
	f.DurationVar(&ttl, "ttl", 90*24*time.Hour, "lifetime of the token, from a minute to a year")
	reasonFlag(c, &t.Reason)
	return c
}

func tokenListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list tokens, revoked and expired ones too; never their secrets", Args: exactly(),
		Example: "  hostler token list\n  hostler token list -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.Tokens(c.Context())
			if err != nil {
				return err
			}
			names, rows := []string{}, [][]string{}
			for _, t := range l.Items {
				names = append(names, t.Name)
				rows = append(rows, []string{
					t.Name, t.Role, tokenPlace(t), tokenState(t, a.now()), render.Ago(t.CreatedAt, a.now()), moment(a, t.ExpiresAt),
				})
			}
			return a.show(l, names, func(p *render.Page) {
				p.Table([]render.Column{
					render.Keep("NAME"), render.Main("ROLE"), render.Main("WHERE"), render.Keep("STATE"),
					render.Aside("CREATED"), render.More("EXPIRES"),
				}, rows)
			})
		},
	}
}

func tokenRevokeCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "revoke NAME --reason R", Short: "revoke a token at once", Args: exactly("NAME"),
		Long: `Revoke a token. Every broker refuses it from then on, and ends the requests, event
streams and terminals that it holds open. A revoked token stays in the list and its
name is not given again. A token may revoke itself.`,
		Example: "  hostler token revoke ci --reason 'found in a log' --yes",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			if err := a.confirm(c, "revoke token %s? What it holds open ends at once", args[0]); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			t, err := remote.RevokeToken(c.Context(), args[0], reason)
			if err != nil {
				return err
			}
			return a.show(t, []string{t.Name}, func(p *render.Page) { p.Line("revoked: " + t.Name + " (" + t.Role + ")") })
		},
	}
	yesFlag(c)
	reasonFlag(c, &reason)
	return c
}

// tokenPlace says where the token's role holds.
func tokenPlace(t api.Token) string {
	if t.OrganisationID != "" {
		return cmp.Or(t.ProjectID, t.OrganisationID)
	}
	return cmp.Or(strings.Join(t.Sites, ", "), "all sites")
}

func tokenState(t api.Token, now time.Time) string {
	switch {
	case !t.RevokedAt.IsZero():
		return "revoked"
	case !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt):
		return "expired"
	}
	return "valid"
}

// tokenOfTenant names the place of a tenant's token; empty: a token of the platform.
func tokenOfTenant(t api.Token) string {
	if t.OrganisationID == "" {
		return ""
	}
	return " at " + tokenPlace(t)
}
