package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func onboardingStartCommand(a *app) *cobra.Command {
	var s api.OnboardingStart
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "start", Short: "bring one machine from its BMC to an active node", Args: exactly(),
		Long: `Bring one machine from its BMC to an active node: MAAS finds, commissions and
deploys the machine, and its agent enrols. Existing results are adopted; a machine
that is not ours is refused. hostler onboarding plan shows beforehand what would be
done.`,
		Example: "  hostler onboarding start --site dc1 --hostname c07u43 --ipmi-ip 10.176.16.128 --sku mi300x.192g.8gpu --wait",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := needsFlags(c, "site", "hostname", "ipmi-ip", "sku"); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if err := a.confirmOnTerminal(c, "bring %s (BMC %s) into service at site %s? All data on its disks is lost.", s.Hostname,
				s.IPMIIP, s.SiteID); err != nil {
				return err
			}
			o, err := remote.StartOnboarding(c.Context(), s)
			if err != nil {
				return err
			}
			if wait {
				return a.watchOnboarding(c.Context(), remote, o.OnboardingID, timeout)
			}
			return onboardings.print(a, []api.Onboarding{*o}, "the run continues by itself (hostler onboarding watch "+o.OnboardingID+")")
		},
	}
	onboardingFlags(c, &s.SiteID, &s.ProfileID, &s.SKUID)
	machineFlags(c, &s.OnboardingMachine)
	reasonFlag(c, &s.Reason)
	yesFlag(c)
	runWaitFlags(c, &wait, &timeout)
	return c
}

func onboardingFlags(c *cobra.Command, site, profile, sku *string) {
	c.Flags().StringVar(site, "site", "", "`SITE` of the machine")
	c.Flags().StringVar(profile, "profile", "", "`PROFILE` of the site (default: the site's default profile)")
	c.Flags().StringVar(sku, "sku", "", "`SKU` of the machine")
}

func machineFlags(c *cobra.Command, m *api.OnboardingMachine) {
	c.Flags().StringVar(&m.Hostname, "hostname", "", "hostname of the machine")
	c.Flags().StringVar(&m.IPMIIP, "ipmi-ip", "", "address of its BMC")
	c.Flags().StringVar(&m.PXEMAC, "pxe-mac", "", "MAC address of the interface that boots, if known")
	placeFlags(c, &m.Place)
}

func needsFlags(c *cobra.Command, names ...string) error {
	for _, n := range names {
		if c.Flag(n).Value.String() == "" {
			return usage("%s needs --%s (see hostler help %s)", c.CommandPath(), n, c.CommandPath()[len("hostler "):])
		}
	}
	return nil
}

func onboardingBatchCommand(a *app) *cobra.Command {
	var b api.OnboardingBatch
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "batch FILE.csv|-", Short: "bring many machines of one kind to active nodes", Args: exactly("FILE"),
		Long: `Bring many machines of one kind to active nodes. Either all listed machines start,
or none. The profile limits how many move at a time, and stops the batch after a
number of failures in a row at one stage and of one class.

The CSV file begins with a line of column names, in any order: hostname, ipmi_ip,
and optionally pxe_mac, zone, room, row, rack, unit and domain (hostler node place).`,
		Example: "  hostler onboarding batch --site dc1 --sku mi300x.192g.8gpu rack-c07.csv --wait",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needsFlags(c, "site", "sku"); err != nil {
				return err
			}
			var err error
			if b.Nodes, err = a.machines(args[0]); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if err := a.confirmOnTerminal(c, "bring %s into service at site %s? All data on their disks is lost.",
				plural(len(b.Nodes), "machine"), b.SiteID); err != nil {
				return err
			}
			started, err := remote.StartOnboardingBatch(c.Context(), b)
			if err != nil {
				return err
			}
			rows := [][]string{}
			for _, r := range started.Onboardings {
				rows = append(rows, []string{r.OnboardingID, r.Hostname})
			}
			return onboardings.startedBatch(a, c.Context(), remote, started, started.BatchID, rows, wait, timeout)
		},
	}
	onboardingFlags(c, &b.SiteID, &b.ProfileID, &b.SKUID)
	reasonFlag(c, &b.Reason)
	yesFlag(c)
	runWaitFlags(c, &wait, &timeout)
	return c
}

const maxMachinesFile = 900 << 10 // bytes; the API takes a MiB

func (a *app) machines(file string) ([]api.OnboardingMachine, error) {
	raw, err := a.readUpTo(maxMachinesFile, file)
	if err != nil {
		return nil, err
	}
	rows, err := csvRows(file, "onboarding_invalid", raw, []string{"hostname", "ipmi_ip"}, append([]string{"pxe_mac"}, placeColumns...))
	if err != nil {
		return nil, err
	}
	out := []api.OnboardingMachine{}
	for _, r := range rows {
		p, err := placeOf(r)
		if err != nil {
			return nil, broker.Errorf(broker.Invalid, "onboarding_invalid", "cannot use %s: line %s: %v", file, r[lineColumn], err)
		}
		out = append(out, api.OnboardingMachine{Hostname: r["hostname"], IPMIIP: r["ipmi_ip"], PXEMAC: r["pxe_mac"], Place: p})
	}
	if len(out) == 0 {
		return nil, broker.Errorf(broker.Invalid, "onboarding_invalid", "cannot use %s: it names no machine", file)
	}
	return out, nil
}

func onboardingPlanCommand(a *app) *cobra.Command {
	var b api.OnboardingBatch
	var m api.OnboardingMachine
	c := &cobra.Command{
		Use: "plan [FILE.csv|-]", Short: "show what onboardings would do, without starting them",
		Long: `Show what onboarding one machine, or the machines of a file, would do: the stages,
what each stage touches, what is lost for good, and how long it usually takes.
Nothing is started. A request that would be refused is refused here too.`,
		Example: "  hostler onboarding plan --site dc1 --hostname c07u43 --ipmi-ip 10.176.16.128 --sku mi300x.192g.8gpu\n  hostler onboarding plan --site dc1 --sku mi300x.192g.8gpu rack-c07.csv",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exactly("FILE")(c, args)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			needed := []string{"site", "sku"}
			if len(args) == 0 {
				needed = append(needed, "hostname", "ipmi-ip")
			}
			if err := needsFlags(c, needed...); err != nil {
				return err
			}
			b.Nodes = []api.OnboardingMachine{m}
			if len(args) == 1 {
				var err error
				if b.Nodes, err = a.machines(args[0]); err != nil {
					return err
				}
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			plan, err := remote.PlanOnboarding(c.Context(), b)
			if err != nil {
				return err
			}
			return a.show(plan, nil, func(p *render.Page) { planPage(p, plan) })
		},
	}
	onboardingFlags(c, &b.SiteID, &b.ProfileID, &b.SKUID)
	machineFlags(c, &m)
	return c
}

func planPage(p *render.Page, plan *api.OnboardingPlan) {
	p.Fields("site", plan.Site, "profile", plan.Profile, "sku", plan.SKUID, "machines", strconv.Itoa(len(plan.Nodes)+len(plan.Machines)),
		"at a time", strconv.Itoa(plan.Parallel),
		"takes about", render.Span(time.Duration(plan.ExpectedSeconds)*time.Second)+" each")
	p.Blank()
	stagesPage(p, plan.Stages)
	p.Blank()
	for _, n := range plan.Nodes[:min(len(plan.Nodes), 20)] {
		p.Line(n.Hostname + " at " + n.IPMIIP)
	}
	for _, m := range plan.Machines[:min(len(plan.Machines), 20)] {
		p.Line(strings.TrimSpace(m.SystemID + " " + m.Hostname))
	}
	if more := max(len(plan.Nodes), len(plan.Machines)) - 20; more > 0 {
		p.Line(fmt.Sprintf("… and %d more", more))
	}
	for _, r := range plan.Refused {
		p.Line("refused: " + r.SystemID + ": " + r.Code + ": " + r.Detail)
	}
}

// stagesPage is the table of planned stages.
func stagesPage(p *render.Page, stages []api.PlannedStage) {
	rows := [][]string{}
	for _, s := range stages {
		name, about := s.Stage, ""
		switch {
		case s.Rescues != "":
			name = "  " + name
			about = "only if " + s.Rescues + " fails"
		case s.Pivot:
			about = "a cancel after it leaves the machine deployed"
		case s.Optional:
			about = "a failure is recorded, and the run continues"
		}
		expected := ""
		if s.ExpectedSeconds > 0 {
			expected = render.Span(time.Duration(s.ExpectedSeconds) * time.Second)
		}
		rows = append(rows, []string{name, expected, s.Touches, s.Destructive, about})
	}
	p.Table([]render.Column{
		render.Keep("STAGE"), render.Main("TAKES"), render.More("TOUCHES"), render.Keep("DESTROYS"),
		render.Keep("NOTE"),
	}, rows)
}
