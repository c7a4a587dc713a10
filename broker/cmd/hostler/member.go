package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func memberCommand(a *app) *cobra.Command {
	return noun("member", "members of organisations and projects", "  hostler member list --project acme/lab",
		memberAddCommand(a), memberListCommand(a), memberShowCommand(a), memberEndCommand(a), memberDenyCommand(a), memberAllowCommand(a))
}

// tenantPlace is the place that a command names: an organisation or a project.
type tenantPlace struct{ org, project string }

func (p *tenantPlace) flags(c *cobra.Command, what string) {
	orgFlag(c, &p.org, what+" of a whole organisation")
	c.Flags().StringVar(&p.project, "project", "", what+" of a project, `PROJECT`: an id, a name, or ORGANISATION/NAME")
}

func (p tenantPlace) check() error {
	if (p.org == "") == (p.project == "") {
		return usage("use one of --org ORG and --project PROJECT")
	}
	return nil
}

func memberAddCommand(a *app) *cobra.Command {
	var m api.MemberAdd
	var at tenantPlace
	c := &cobra.Command{
		Use: "add NAME --role R", Short: "add a member to an organisation or a project", Args: exactly("NAME"),
		Long: `Add a member: a person or a program that acts for the tenant, with a role that holds
at this place and below it.

  tenant_admin    keeps an organisation's projects and members
  project_admin   keeps a project's members, and all that is the project's
  project_member  asks for nodes, and releases them
  project_viewer  reads

Each role includes the roles below it. To change a role, end the member and add
it under another name: the name of a token is never given again. A person who signs in
(oidc:SUBJECT) is added under the same name, which lifts a denial of that person there.`,
		Example: "  hostler member add ada --role project_member --project acme/lab",
		RunE: func(c *cobra.Command, args []string) error {
			if m.Role == "" {
				return usage("no role is given (use --role tenant_admin, project_admin, project_member or project_viewer)")
			}
			if err := at.check(); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			m.Subject = args[0]
			var made *api.Member
			if at.project != "" {
				made, err = remote.AddProjectMember(c.Context(), at.project, m)
			} else {
				made, err = remote.AddOrganisationMember(c.Context(), at.org, m)
			}
			if err != nil {
				return err
			}
			return a.showMember(made)
		},
	}
	at.flags(c, "member")
	c.Flags().StringVar(&m.Role, "role", "", "tenant_admin, project_admin, project_member or project_viewer")
	reasonFlag(c, &m.Reason)
	return c
}

func memberListCommand(a *app) *cobra.Command {
	var ended bool
	var at tenantPlace
	c := &cobra.Command{
		Use: "list", Short: "list the members of an organisation, or of a project", Args: exactly(),
		Long: `List the members of an organisation, or of a project. People who are denied there are
on the list, with the reason.

The list of a project lacks who is a member of the whole organisation, or is denied
there: see also hostler member list --org ORG.`,
		Example: "  hostler member list --project acme/lab\n  hostler member list --org acme",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := at.check(); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			all, err := membersAt(c.Context(), remote, at, ended)
			if err != nil {
				return err
			}
			names, rows := []string{}, [][]string{}
			for _, m := range all {
				names = append(names, m.ID)
				rows = append(rows, []string{
					m.ID, m.Subject, cmp.Or(m.Role, "-"), cmp.Or(m.ProjectID, "all projects"), memberState(m), cmp.Or(m.EndReason, "-"),
					render.Ago(m.CreatedAt, a.now()),
				})
			}
			return a.show(api.MemberList{Items: all}, names, func(p *render.Page) {
				p.Table([]render.Column{
					render.ID("ID"), render.Keep("NAME"), render.Main("ROLE"), render.Main("PROJECT"), render.Keep("STATE"),
					render.Keep("REASON"), render.Aside("CREATED"),
				}, rows)
				if len(rows) == 0 {
					a.note("no members (add one: hostler member add)")
				}
			})
		},
	}
	at.flags(c, "members")
	endedFlag(c, &ended)
	return c
}

func membersAt(ctx context.Context, remote *client.Client, at tenantPlace, ended bool) ([]api.Member, error) {
	if at.project != "" {
		return remote.ProjectMembers(ctx, at.project, ended)
	}
	return remote.OrganisationMembers(ctx, at.org, ended)
}

func memberShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show MEMBER", Short: "show a member", Args: exactly("MEMBER"),
		Example: "  hostler member show mem-019c4e6a2f1k7m2q4s6t8w",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			m, err := remote.Member(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.showMember(m)
		},
	}
}

func memberEndCommand(a *app) *cobra.Command {
	return endCommand(a, "member", "MEMBER", "member", "mem-019c4e6a2f1k7m2q4s6t8w", `End a member. The member's keys and tokens end with it. The record stays. A person who
signs in (oidc:SUBJECT) is denied as well: see hostler member deny. The keys stay on the
nodes of allocations that are active, until those are released.`,
		func(c *cobra.Command, id, reason string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			m, err := remote.EndMember(c.Context(), id, reason)
			if err != nil {
				return err
			}
			return a.showMember(m)
		})
}

func memberDenyCommand(a *app) *cobra.Command {
	var at tenantPlace
	var d api.MemberDeny
	c := &cobra.Command{
		Use: "deny oidc:SUBJECT --reason R", Short: "deny a person who signs in", Args: exactly("oidc:SUBJECT"),
		Long: `Deny a person who signs in: the person has no role at this place and below it, whatever the
rules of the broker's config give. The person's members and keys there end, and so do
requests that are being answered. hostler member list shows who is denied, and why.

A denial in a project leaves a role of the whole organisation alone: deny such a person
in the organisation. A denial does not end the operator tokens that the person made, and
leaves the person's SSH keys on the nodes of allocations that are active. To end that
access, too, release those allocations: hostler allocation release.`,
		Example: "  hostler member deny oidc:248289761001 --org acme --reason 'left the company' --yes",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(d.Reason); err != nil {
				return err
			}
			if err := at.check(); err != nil {
				return err
			}
			if err := a.confirm(c, "deny %s in %s?", args[0], cmp.Or(at.project, at.org)); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			d.Subject = args[0]
			deny, place := remote.DenyOrganisationMember, at.org
			if at.project != "" {
				deny, place = remote.DenyProjectMember, at.project
			}
			m, err := deny(c.Context(), place, d)
			if err != nil {
				return err
			}
			if m.Role == "" && strings.Contains(m.Subject, "@") {
				a.note("%s has the form of an email address, and was no member of that place itself. The denial works only if the provider's "+
					"subjects are addresses (compare the person's name in hostler member list, or the actor of row sign_in in the audit log)", m.Subject)
			}
			return a.showMember(m)
		},
	}
	at.flags(c, "person")
	yesFlag(c)
	reasonFlag(c, &d.Reason)
	return c
}

func memberAllowCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "allow MEMBER --reason R", Short: "lift the denial of a person who signs in", Args: exactly("MEMBER"),
		Long: `Lift the denial of a person who signs in. The rules of the broker's config then give the
person what they give. The member stays ended; hostler member add adds it again.`,
		Example: "  hostler member allow mem-019c4e6a2f1k7m2q4s6t8w --reason 'is back'",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			m, err := remote.AllowMember(c.Context(), args[0], reason)
			if err != nil {
				return err
			}
			return a.showMember(m)
		},
	}
	reasonFlag(c, &reason)
	return c
}

func memberState(m api.Member) string {
	if m.DeniedAt != nil {
		return "denied"
	}
	return endState(m.EndedAt)
}

func (a *app) showMember(m *api.Member) error {
	return a.show(m, []string{m.ID}, func(p *render.Page) {
		p.Fields("id", m.ID, "name", m.Subject, "role", cmp.Or(m.Role, "-"), "organisation", m.OrganisationID,
			"project", cmp.Or(m.ProjectID, "all projects"), "state", memberState(*m), "created", moment(a, m.CreatedAt),
			"ended", endMoment(a, m.EndedAt), "reason", cmp.Or(m.EndReason, "-"))
	})
}
