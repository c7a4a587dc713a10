package main

import (
	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func agentReleaseCommand(a *app) *cobra.Command {
	return noun("agent-release", "manage packages and signed releases of the agent", "  hostler agent-release list",
		agentReleasePackCommand(a), agentReleaseSignCommand(a), agentReleasePublishCommand(a), agentReleaseListCommand(a),
		agentReleaseFloorCommand(a), agentReleaseRevokeCommand(a))
}

var releaseHeads = []render.Column{
	render.Keep("VERSION"), render.Main("KIND"), render.Main("CHANNEL"), render.More("ARCH"),
	render.Aside("DIGEST"), render.Aside("SIZE"), render.More("PUBLISHED"), render.Aside("BY"),
	render.Keep("STANDING"), render.More("WHERE"),
}

func releaseRow(a *app, r api.AgentRelease) []string {
	where := r.Filename
	if r.Kind == signedKind {
		where = "broker"
		if r.Reference != "" {
			where = r.Reference
		}
	}
	return []string{
		r.Version, r.Kind, r.Channel, r.Arch, r.Digest, render.Bytes(r.Size), render.Ago(r.UploadedAt,
			a.now()), r.UploadedBy, standing(r), where,
	}
}

const signedKind = "signed"

// standing says why a release is withheld from nodes.
func standing(r api.AgentRelease) string {
	switch {
	case !r.RevokedAt.IsZero():
		return "revoked: " + r.RevokedReason
	case r.BelowFloor:
		return "below the floor"
	}
	return "ok"
}

func (a *app) showRelease(r *api.AgentRelease) error {
	return a.show(r, []string{r.Digest}, func(p *render.Page) { p.Table(releaseHeads, [][]string{releaseRow(a, *r)}) })
}

func agentReleaseListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list packages and signed releases, newest first", Args: exactly(),
		Example: "  hostler agent-release list\n  hostler agent-release list -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			list, err := remote.AgentReleases(c.Context())
			if err != nil {
				return err
			}
			digests, rows := []string{}, [][]string{}
			for _, r := range list.Items {
				digests, rows = append(digests, r.Digest), append(rows, releaseRow(a, r))
			}
			return a.show(list, digests, func(p *render.Page) {
				p.Table(releaseHeads, rows)
				if list.Floor != nil {
					p.Blank()
					p.Line("floor " + list.Floor.Version + ", set by " + list.Floor.SetBy + " " + render.Ago(list.Floor.SetAt, a.now()) +
						": " + list.Floor.Reason)
				}
				if len(rows) == 0 {
					a.note("no agent packages (hostler agent-release publish FILE)")
				}
			})
		},
	}
}

func agentReleaseFloorCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "floor VERSION --reason R",
		Short: "set the lowest version that nodes may be given",
		Long: `Set the lowest agent version that nodes may be given, except by a requested
rollback. Nodes that run an older version stay as they are. The floor can be lowered
again: the audit log records each change.`,
		Example: "  hostler agent-release floor 1.4.0 --reason 'CVE-2026-0001 affects all earlier versions'",
		Args:    exactly("VERSION"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			f, err := remote.SetReleaseFloor(c.Context(), api.AgentReleaseFloorPut{Version: args[0], Reason: reason})
			if err != nil {
				return err
			}
			return a.show(f, []string{f.Version}, func(p *render.Page) {
				p.Fields("floor", f.Version, "set by", f.SetBy, "reason", f.Reason)
			})
		},
	}
	reasonFlag(c, &reason)
	return c
}

func agentReleaseRevokeCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "revoke VERSION --reason R",
		Short: "revoke a signed release: no node is given it any more",
		Long: `Revoke a signed release: no node is given it any more. A revocation cannot be
undone; publish the same program again under a new version. Nodes that run the
release stay as they are, and count as drift.`,
		Example: "  hostler agent-release revoke 1.4.1 --reason 'loses its configuration'",
		Args:    exactly("VERSION"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if err := a.confirm(c, "revoke agent release %s of %s for ever?", args[0], remote.Broker()); err != nil {
				return err
			}
			r, err := remote.RevokeRelease(c.Context(), args[0], reason)
			if err != nil {
				return err
			}
			return a.showRelease(r)
		},
	}
	reasonFlag(c, &reason)
	yesFlag(c)
	return c
}
