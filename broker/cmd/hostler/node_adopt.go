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
		Use: "adopt [FILE.csv|-]", Short: "bind machines that MAAS has deployed already, and print what installs their agent",
		Long: `Bind machines that MAAS has deployed already, and print what installs their agent.
MAAS is looked at and never changed: no machine is commissioned, deployed, marked or
released, not even when this is cancelled. A machine is refused that is not Deployed,
that is of another MAAS user than the site's token (no run could give it back), that a
node or another run has, or that is not of the SKU; --plan says which. The node ends
active, or quarantined if its agent comes from other hardware.

The printed line holds a one-time enrolment token, so keep the output private. With
allow: probe in /etc/hostler-agent/config.yaml, written before the line is run, nothing
on the machine can be changed: the node itself refuses.

The CSV file begins with a line that names its columns, in any order: system_id, and
perhaps sku and hostname (which MAAS must have as well). All of a list are begun, or
none; the profile says how many move at a time.`,
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
	f.Lookup("sku").Usage = "`SKU` that the machine must be; without one it is compared with nothing"
	f.StringVar(&o.one.SystemID, "system-id", "", "MAAS's `ID` of the machine")
	f.StringVar(&o.one.Hostname, "hostname", "", "what MAAS must call the machine; whatever it does without one")
	f.DurationVar(&o.ttl, "ttl", 2*time.Hour, "how long the enrolment tokens live")
	f.BoolVar(&o.plan, "plan", false, "say what would be done, and begin nothing")
	reasonFlag(c, &o.batch.Reason)
	runWaitFlags(c, &o.wait, &o.timeout)
	return c
}

func (o *adoptOrder) run(c *cobra.Command, args []string) error {
	if err := needsFlags(c, "site"); err != nil {
		return err
	}
	if (len(args) == 1) == (o.one.SystemID != "") || len(args) == 1 && o.one.Hostname != "" {
		return usage("%s takes --system-id (and perhaps --hostname), or a file (see hostler help node adopt)", c.CommandPath())
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
	run, err := w.api.StartAdoption(ctx, api.AdoptionStart{SiteID: o.batch.SiteID, ProfileID: o.batch.ProfileID, AdoptedMachine: m, Reason: o.batch.Reason})
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
	rows, err := csvRows(file, "adoption_invalid", raw, []string{"system_id"}, []string{"sku", "hostname"})
	if err != nil {
		return nil, err
	}
	out := []api.AdoptedMachine{}
	for _, r := range rows {
		out = append(out, api.AdoptedMachine{SystemID: r["system_id"], SKUID: r["sku"], Hostname: r["hostname"]})
	}
	if len(out) == 0 {
		return nil, broker.Errorf(broker.Invalid, "adoption_invalid", "cannot use %s: it names no machine", file)
	}
	return out, nil
}
