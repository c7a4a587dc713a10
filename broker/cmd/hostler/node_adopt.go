package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

// adoptOrder is what an operator asks of node adopt.
type adoptOrder struct {
	*app
	batch        api.AdoptionBatch
	one          api.AdoptedMachine // without a file
	plan, wait   bool
	ttl, timeout time.Duration
}

func nodeAdoptCommand(a *app) *cobra.Command {
	o := &adoptOrder{app: a}
	c := &cobra.Command{
		Use: "adopt [FILE.csv|-]", Short: "bind machines already deployed by MAAS, and print how to install their agent",
		Long: `Bind machines that MAAS has already deployed, and print the command that installs
the agent on each. MAAS is only read: no machine is commissioned, deployed, marked
or released, not even when the run is cancelled. A machine is refused if it is not
Deployed, if it belongs to another MAAS user than the site's token (no run could
return it), if a node or another run has it, or if it does not match the SKU; --plan
shows which. The node ends active, or quarantined if its agent runs on other
hardware.

The printed line contains a one-time enrolment token, so keep the output private.
With allow: probe in /etc/hostler-agent/config.yaml, written before the line is run,
the node itself refuses every change of the machine.

The CSV file begins with a line of column names, in any order: system_id, and
optionally sku, hostname (which must be the name in MAAS), zone, room, row, rack,
unit and domain (hostler node place). Without a zone the node gets the zone of the
machine in MAAS, unless that is the default one. Either all listed
machines start, or none; the profile limits how many move at a time.`,
		Example: "  hostler node adopt --site dc1 --system-id 4y3h7n --sku mi300x.192g.8gpu\n  hostler node adopt --site dc1 --sku mi300x.192g.8gpu rack-c07.csv --wait\n  hostler node adopt --site dc1 --system-id 4y3h7n --plan",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exactly("FILE")(c, args)
			}
			return nil
		},
		RunE: o.run,
	}
	f := c.Flags()
	onboardingFlags(c, &o.batch.SiteID, &o.batch.ProfileID, &o.batch.SKUID)
	f.Lookup("sku").Usage = "`SKU` that the machine must match; without it nothing is compared"
	f.StringVar(&o.one.SystemID, "system-id", "", "MAAS's `ID` of the machine")
	f.StringVar(&o.one.Hostname, "hostname", "", "hostname that the machine must have in MAAS (default: any)")
	placeFlags(c, &o.one.Place)
	f.DurationVar(&o.ttl, "ttl", 2*time.Hour, "lifetime of the enrolment tokens")
	f.BoolVar(&o.plan, "plan", false, "show what would be done, without starting")
	reasonFlag(c, &o.batch.Reason)
	runWaitFlags(c, &o.wait, &o.timeout)
	return c
}

func (o *adoptOrder) run(c *cobra.Command, args []string) error {
	if err := needsFlags(c, "site"); err != nil {
		return err
	}
	if (len(args) == 1) == (o.one.SystemID != "") || len(args) == 1 && (o.one.Hostname != "" || o.one.Place != api.Place{}) {
		return usage("%s takes --system-id (with --hostname and a place, if wanted), or a file (see hostler help node adopt)", c.CommandPath())
	}
	o.batch.Machines = []api.AdoptedMachine{o.one}
	if len(args) == 1 {
		var err error
		if o.batch.Machines, err = o.adopted(args[0]); err != nil {
			return err
		}
	}
	remote, err := o.connect()
	if err != nil {
		return err
	}
	if o.plan {
		p, err := remote.PlanAdoption(c.Context(), o.batch)
		if err != nil {
			return err
		}
		return o.show(p, nil, func(pg *render.Page) { planPage(pg, p) })
	}
	w := &adoptions{app: o.app, api: remote, ttl: int64(o.ttl / time.Second), seen: map[string]bool{}, wait: o.wait, timeout: o.timeout}
	if len(args) == 0 {
		return o.startOne(c.Context(), w)
	}
	return o.startBatch(c.Context(), w)
}

func (o *adoptOrder) startOne(ctx context.Context, w *adoptions) error {
	m := o.one
	m.SKUID = o.batch.SKUID
	run, err := w.api.StartAdoption(ctx, api.AdoptionStart{
		SiteID: o.batch.SiteID, ProfileID: o.batch.ProfileID, AdoptedMachine: m,
		Reason: o.batch.Reason,
	})
	if err != nil {
		return err
	}
	w.run = run.OnboardingID
	return w.follow(ctx, []string{run.OnboardingID})
}

func (o *adoptOrder) startBatch(ctx context.Context, w *adoptions) error {
	started, err := w.api.StartAdoptionBatch(ctx, o.batch)
	if err != nil {
		return err
	}
	w.batch = started.BatchID
	var ids []string
	for _, r := range started.Onboardings {
		ids = append(ids, r.OnboardingID)
	}
	return w.follow(ctx, ids)
}

func (a *app) adopted(file string) ([]api.AdoptedMachine, error) {
	raw, err := a.readUpTo(maxMachinesFile, file)
	if err != nil {
		return nil, err
	}
	rows, err := csvRows(file, "adoption_invalid", raw, []string{"system_id"}, append([]string{"sku", "hostname"}, placeColumns...))
	if err != nil {
		return nil, err
	}
	out := []api.AdoptedMachine{}
	for _, r := range rows {
		p, err := placeOf(r)
		if err != nil {
			return nil, broker.Errorf(broker.Invalid, "adoption_invalid", "cannot use %s: line %s: %v", file, r[lineColumn], err)
		}
		out = append(out, api.AdoptedMachine{SystemID: r["system_id"], SKUID: r["sku"], Hostname: r["hostname"], Place: p})
	}
	if len(out) == 0 {
		return nil, broker.Errorf(broker.Invalid, "adoption_invalid", "cannot use %s: it names no machine", file)
	}
	return out, nil
}
