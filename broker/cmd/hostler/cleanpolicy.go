package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

func cleanPolicyCommand(a *app) *cobra.Command {
	return noun("clean-policy", "what a site accepts on a clean node, besides the baseline", "  hostler clean-policy show --site dc1",
		cleanPolicyShowCommand(a), cleanPolicySetCommand(a))
}

func cleanPolicyShowCommand(a *app) *cobra.Command {
	var site string
	c := &cobra.Command{
		Use: "show", Short: "show a site's policy", Args: exactly(),
		Example: "  hostler clean-policy show --site dc1\n  hostler clean-policy show -o json | jq .policy > policy.json",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			p, err := remote.CleanPolicy(c.Context(), site)
			if err != nil {
				return err
			}
			return a.showCleanPolicy(p)
		},
	}
	c.Flags().StringVar(&site, "site", "", "site of the policy; without it, the policy of nodes without a site")
	return c
}

func cleanPolicySetCommand(a *app) *cobra.Command {
	var put api.CleanPolicyPut
	c := &cobra.Command{
		Use: "set FILE|-", Short: "replace a site's policy", Args: exactly("FILE|-"),
		Long: `Replace a site's policy with a JSON object. The fields known_users, known_units,
known_ports (such as tcp/22), known_processes and scratch are lists of strings. The
field gpu sets what the site requires of a GPU scrub: min_coverage_percent,
max_uncovered_bytes, require_reset, allow_unverified, keep_holders, stop_services (a
list of NAME.service), holder_grace_seconds, fabric_wait_seconds and drivers (a list
of versions). A field that is left out has its default.`,
		Example: "  hostler clean-policy set policy.json --site dc1 --reason 'the new monitoring agent'",
		RunE: func(c *cobra.Command, args []string) error {
			raw, err := a.readBounded(args[0])
			if err != nil {
				return err
			}
			if err := taskcatalog.DecodeStrict(raw, &put.Policy); err != nil {
				return broker.Errorf(broker.Invalid, "policy_invalid", "cannot use %s as a policy: %v", args[0], err)
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			p, err := remote.SetCleanPolicy(c.Context(), put)
			if err != nil {
				return err
			}
			return a.showCleanPolicy(p)
		},
	}
	c.Flags().StringVar(&put.Site, "site", "", "site of the policy; without it, the policy of nodes without a site")
	reasonFlag(c, &put.Reason)
	return c
}

func (a *app) showCleanPolicy(v *api.CleanPolicy) error {
	return a.show(v, nil, func(p *render.Page) {
		site := v.Site
		if site == "" {
			site = "(nodes without a site)"
		}
		p.Fields("site", site, "known users", listed("none", v.Policy.KnownUsers), "known units", listed("none", v.Policy.KnownUnits),
			"known ports", listed("none", v.Policy.KnownPorts),
			"known processes", listed("none", v.Policy.KnownProcesses), "scratch", listed("none", v.Policy.Scratch), "set by", v.UpdatedBy,
			"at", moment(a, v.UpdatedAt))
		p.Title("GPU scrub")
		gpuPolicyFields(p, cmp.Or(v.Policy.GPU, &taskcatalog.GPUScrubPolicy{}))
	})
}

func gpuPolicyFields(p *render.Page, g *taskcatalog.GPUScrubPolicy) {
	bytes := ""
	if g.MaxUncoveredBytes > 0 {
		bytes = bytesText(&g.MaxUncoveredBytes)
	}
	figure := func(set bool, unit string, v any) string {
		if !set {
			return "default"
		}
		return fmt.Sprint(v) + unit
	}
	p.Fields("least coverage", figure(g.MinCoveragePercent > 0, "%", g.MinCoveragePercent),
		"or left out at most", figure(bytes != "", "", bytes),
		"reset must be proven", render.YesNo(g.RequireReset), "unverified may be clean", render.YesNo(g.AllowUnverified),
		"holders are left alone", render.YesNo(g.KeepHolders),
		"stops, too", listed("none", g.StopServices), "grace for holders", figure(g.HolderGraceSeconds > 0, "s", g.HolderGraceSeconds),
		"waits for the fabric", figure(g.FabricWaitSeconds > 0, "s", g.FabricWaitSeconds), "trusted drivers", listed("any", g.Drivers))
}

func listed(none string, l []string) string {
	if len(l) == 0 {
		return none
	}
	return strings.Join(l, ", ")
}
