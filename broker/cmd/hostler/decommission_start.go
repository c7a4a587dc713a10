package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

func decommissionFlags(c *cobra.Command, s *api.DecommissionStart) {
	c.Flags().StringVar(&s.Mode, "mode", "",
		"soft_reset: cleaned where it stands; reimage: a fresh system by MAAS; full_decommission: out of the fleet for good")
	c.Flags().StringVar(&s.StorageCleanup, "storage-cleanup", "local", "none, local, weka or all")
	c.Flags().StringVar(&s.Erase, "erase", "none",
		"none, quick or secure, for the disks that the system does not run from (soft_reset), or by MAAS for all disks (other modes)")
	c.Flags().StringVar(&s.Image, "image", "",
		"with reimage: the `IMAGE` to install, such as ubuntu/noble or custom/IMAGE (default: distro_series of the profile or site)")
	c.Flags().StringVar(&s.ProfileID, "profile", "", "`PROFILE` of the node's site (default: the site's default profile)")
	c.Flags().BoolVar(&s.ForceRelease, "force-release", false, "end the node's live allocations, for the tenants as well")
	c.Flags().BoolVar(&s.RemoveMAASRecord, "remove-maas-record", false, "with full_decommission: delete the machine from MAAS at the end")
	reasonFlag(c, &s.Reason)
}

func decommissionStartCommand(a *app) *cobra.Command {
	var s api.DecommissionStart
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "start NODE", Short: "turn a node over between two tenants", Args: exactly("NODE"),
		Long: `Turn a node over. The node takes no new tenant, its users are removed, its storage
and GPUs are cleaned, the node is inspected, and a signed certificate states the
result of each step. The node is handed out again only if the certificate meets the
policy of its site; otherwise the node is quarantined. A node with a live allocation
is refused unless --force-release is given. You confirm with the node's hostname,
unless --yes is given.`,
		Example: "  hostler decommission start gpu-07 --mode soft_reset --reason 'allocation a-42 ended' --wait\n  hostler decommission start gpu-07 --mode soft_reset --force-release --reason 'unpaid' --yes",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needsFlags(c, "mode"); err != nil {
				return err
			}
			if err := needReason(s.Reason); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			ref := args[0]
			if !saidYes(c) {
				plan, err := remote.PlanDecommission(c.Context(), ref, s)
				if err != nil {
					return err
				}
				if ref, err = a.confirmNode(plan); err != nil {
					return err
				}
				s.ForceAllocations = shown(s.ForceRelease, plan.NodeTenants)
			}
			d, err := remote.StartDecommission(c.Context(), ref, s)
			if err != nil {
				return err
			}
			return a.begun(c.Context(), remote, d, wait, timeout)
		},
	}
	decommissionFlags(c, &s)
	yesFlag(c)
	runWaitFlags(c, &wait, &timeout)
	return c
}

func (a *app) begun(ctx context.Context, remote *client.Client, d *api.Decommission, wait bool, timeout time.Duration) error {
	if wait {
		return a.watchDecommission(ctx, remote, d.DecommissionID, timeout)
	}
	return decommissions.print(a, []api.Decommission{*d}, "the run continues by itself (hostler decommission watch "+d.DecommissionID+")")
}

// confirmNode shows the node's tenants, and has the person type the hostname: a slip on the command
// line must not cost a tenant their work. A start that would be refused is not asked about, because
// the tenant who is on the node now may be gone a moment later.
func (a *app) confirmNode(plan *api.DecommissionPlan) (id string, err error) {
	if err := refusedBy(plan.Refused); err != nil {
		return "", err
	}
	if !a.ask {
		return "", broker.Errorf(broker.Invalid, "confirmation_required",
			"cannot ask without a terminal whether %s is the right node (use --yes)", plan.Node.Hostname)
	}
	page := a.newQuestion()
	tenantsOf(page, plan)
	_, _ = page.WriteTo(a.err)
	_, _ = fmt.Fprintf(a.err, "type the hostname to continue: ")
	line, err := a.answer()
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(line) != plan.Node.Hostname {
		return "", broker.Errorf(broker.Refused, "not_confirmed", "nothing was changed: that is not the hostname")
	}
	return plan.Node.ID, nil
}

// shown are the allocations that the person saw before saying yes. With force, no other allocation
// ends.
func shown(force bool, nodes ...api.NodeTenants) []string {
	if !force {
		return nil
	}
	ids := []string{}
	for _, n := range nodes {
		for _, l := range n.Live {
			ids = append(ids, l.AllocationID)
		}
	}
	return ids
}

// refusedBy is the refusal that a plan foresees.
func refusedBy(r *api.Refusal) error {
	if r == nil {
		return nil
	}
	return broker.Errorf(broker.Refused, r.Code, "%s", r.Detail)
}

func tenantsOf(p *render.Page, plan *api.DecommissionPlan) {
	n := plan.Node
	pairs := []string{
		"node", n.Hostname + " (" + n.ID + ")", "serial", cmp.Or(n.Serial, "its agent has reported none"), "site", n.Site,
		"maas system", n.MAASSystemID, "status", n.Status, "mode", plan.Mode,
	}
	if len(plan.Live) == 0 {
		pairs = append(pairs, "on it now", "nobody")
	}
	for _, l := range plan.Live {
		pairs = append(pairs, "on it now", named(l))
	}
	if plan.Last == nil {
		pairs = append(pairs, "on it last", "nobody on record")
	} else {
		pairs = append(pairs, "on it last", named(*plan.Last)+", until "+render.Time(plan.Last.EndedAt)+certifiedSince(plan.NodeTenants))
	}
	if plan.Refused != nil {
		pairs = append(pairs, "refused", plan.Refused.Code+": "+plan.Refused.Detail)
	}
	p.Fields(append(pairs, "takes about", render.Span(time.Duration(plan.ExpectedSeconds)*time.Second))...)
}

// certifiedSince says whether the node was certified after its last tenant.
func certifiedSince(n api.NodeTenants) string {
	if n.LastCertified {
		return "; certified since"
	}
	return "; not certified since"
}

func named(l api.Occupant) string {
	text := "allocation " + l.AllocationID + ", user " + l.Username
	if l.Tenant != "" {
		text += ", tenant " + taskcatalog.Clean(l.Tenant, 100)
	}
	if l.HadRoot {
		text += ", with root"
	}
	return text
}

func decommissionPlanCommand(a *app) *cobra.Command {
	var s api.DecommissionStart
	var nodes string
	c := &cobra.Command{
		Use: "plan [NODE]", Short: "show what a turnover would do, without starting it",
		Example: "  hostler decommission plan gpu-07 --mode soft_reset\n  hostler decommission plan --nodes rack-c07.txt --mode reimage",
		Args: func(c *cobra.Command, args []string) error {
			if nodes != "" {
				return exactly()(c, args)
			}
			return exactly("NODE")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := needsFlags(c, "mode"); err != nil {
				return err
			}
			if s.Reason == "" {
				s.Reason = "plan"
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if nodes != "" {
				return a.planBatch(c.Context(), remote, nodes, s)
			}
			plan, err := remote.PlanDecommission(c.Context(), args[0], s)
			if err != nil {
				return err
			}
			return a.show(plan, nil, func(p *render.Page) {
				tenantsOf(p, plan)
				p.Blank()
				stagesPage(p, plan.Stages)
			})
		},
	}
	c.Flags().StringVar(&nodes, "nodes", "", "for many nodes, "+nodesUsage)
	decommissionFlags(c, &s)
	return c
}

func (a *app) planBatch(ctx context.Context, remote *client.Client, nodes string, s api.DecommissionStart) error {
	refs, err := a.nodesOf(ctx, remote, nodes)
	if err != nil {
		return err
	}
	plan, err := remote.PlanDecommissionBatch(ctx, api.DecommissionBatch{Nodes: refs, DecommissionStart: s})
	if err != nil {
		return err
	}
	return a.show(plan, nil, func(p *render.Page) {
		batchPage(a, p, plan)
		p.Blank()
		stagesPage(p, plan.Stages)
	})
}

func storageCleanupCommand(a *app) *cobra.Command {
	var s api.StorageCleanupStart
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "storage-cleanup NODE", Short: "clean a node's storage, and inspect the node", Args: exactly("NODE"),
		Long: `Clean everything that a tenant could have written to, and inspect the whole node.
Temporary and scratch space, homes, containers and dumps are lost. The node stays in
service; no user is provisioned meanwhile, and an unclean node is quarantined. A
node with a live allocation is refused unless --force-release is given. You confirm
with the node's hostname, unless --yes is given.`,
		Example: "  hostler storage-cleanup gpu-07 --scope local --reason 'between two jobs' --wait\n  hostler storage-cleanup gpu-07 --scope all --force-release --reason 'the disk is full, ticket 4711' --yes",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needsFlags(c, "scope"); err != nil {
				return err
			}
			if err := needReason(s.Reason); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			ref := args[0]
			if !saidYes(c) {
				plan, err := remote.PlanStorageCleanup(c.Context(), ref, s)
				if err != nil {
					return err
				}
				if ref, err = a.confirmNode(plan); err != nil {
					return err
				}
				s.ForceAllocations = shown(s.ForceRelease, plan.NodeTenants)
			}
			d, err := remote.StartStorageCleanup(c.Context(), ref, s)
			if err != nil {
				return err
			}
			return a.begun(c.Context(), remote, d, wait, timeout)
		},
	}
	c.Flags().StringVar(&s.Scope, "scope", "", "local, weka or all")
	c.Flags().BoolVar(&s.ForceRelease, "force-release", false, "end the node's live allocations, for the tenants as well")
	c.Flags().StringVar(&s.ProfileID, "profile", "", "`PROFILE` of the node's site (default: the site's default profile)")
	reasonFlag(c, &s.Reason)
	yesFlag(c)
	runWaitFlags(c, &wait, &timeout)
	return c
}
