package adminapi

import (
	"cmp"
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/onboarding"
)

type startAdoptionInput struct {
	RequestKey
	Body api.AdoptionStart
}

// startAdoption begins an adoption of one machine. From then on the run is an onboarding like any
// other; the install command comes with the node's enrolment token.
func (a *API) startAdoption(ctx context.Context, in *startAdoptionInput) (*api.Onboarding, error) {
	b := in.Body
	return a.beginOnboarding(ctx, order{b, in.IdempotencyKey, "/adoptions", a.refusedAt(b.SiteID, b.Reason)}, func() (orders, error) {
		return a.adoptions(ctx, api.AdoptionBatch{
			SiteID: b.SiteID, ProfileID: b.ProfileID,
			Machines: []api.AdoptedMachine{b.AdoptedMachine}, Reason: b.Reason,
		})
	})
}

type startAdoptionsInput struct {
	RequestKey
	Body api.AdoptionBatch
}

// startAdoptions begins runs for all machines of a list, or for none.
func (a *API) startAdoptions(ctx context.Context, in *startAdoptionsInput) (*api.OnboardingBatchStarted, error) {
	b := in.Body
	return a.beginOnboardings(ctx, order{b, in.IdempotencyKey, "/adoptions/batch", a.refusedAt(b.SiteID, b.Reason)},
		onboarding.AdoptionKind, func() (orders, error) {
			return a.adoptions(ctx, b)
		})
}

type planAdoptionInput struct{ Body api.AdoptionBatch }

// planAdoption says what adoptions would do, and which machines they would refuse. A plan begins
// nothing but reads from MAAS. Codes: those of adoptions and of maas.CheckAdoptions.
func (a *API) planAdoption(ctx context.Context, in *planAdoptionInput) (*api.OnboardingPlan, error) {
	o, err := a.adoptions(ctx, in.Body)
	if err != nil {
		return nil, err
	}
	out, err := planned(a.c.Onboarding.Adoption(), o)
	if err != nil {
		return nil, err
	}
	refused, err := a.c.Onboarding.CheckAdoptions(ctx, o.site, o.states)
	if err != nil {
		return nil, err
	}
	for _, r := range refused {
		out.Refused = append(out.Refused, api.RefusedMachine{SystemID: r.SystemID, Code: r.Code, Detail: r.Detail})
	}
	out.SKUID, out.Nodes = in.Body.SKUID, []api.OnboardingMachine{}
	for _, s := range o.states {
		out.Machines = append(out.Machines, api.AdoptedMachine{
			SystemID: s.Adopts, SKUID: s.SKU.ID, Hostname: s.Hostname, Place: api.Place(s.Place),
		})
	}
	return out, nil
}

// adoptions checks the given machines. Codes: those of onboarding.NewAdoption, site_not_found,
// profile_not_found, sku_not_found, hostname_taken, machine_bound.
func (a *API) adoptions(ctx context.Context, b api.AdoptionBatch) (o orders, err error) {
	if err := a.where(ctx, &o, b.SiteID, b.ProfileID); err != nil {
		return o, err
	}
	skus := map[string]broker.SKU{"": {}}
	for _, m := range b.Machines {
		id := cmp.Or(m.SKUID, b.SKUID)
		if _, known := skus[id]; !known {
			if skus[id], err = a.c.DB.SKU(ctx, id); err != nil {
				return o, err
			}
		}
		s, locks, err := onboarding.NewAdoption(o.site, o.profile, skus[id],
			onboarding.AdoptionRequest{SystemID: m.SystemID, Hostname: m.Hostname, Place: broker.NodePlace(m.Place)})
		if err != nil {
			return o, err
		}
		if err := a.machineFree(ctx, s); err != nil {
			return o, err
		}
		if other, twice := o.add(callerOf(ctx), chain.Start{
			Kind: onboarding.AdoptionKind, Subject: cmp.Or(s.Hostname, s.Adopts), State: s, Locks: locks, Reason: b.Reason,
		}, s); twice {
			return o, broker.Errorf(broker.Invalid, "adoption_invalid",
				"cannot adopt: %s and %s are the same machine, or have the same hostname", other, cmp.Or(s.Hostname, s.Adopts))
		}
	}
	return o, nil
}

// machineFree refuses at once what a run would soon refuse.
func (a *API) machineFree(ctx context.Context, s onboarding.Onboarding) error {
	if s.Hostname != "" {
		if err := a.hostnameFree(ctx, s); err != nil {
			return err
		}
	}
	node, err := a.c.DB.BoundNode(ctx, s.Site, s.Adopts, "-")
	if err != nil || node == "" {
		return err
	}
	live, _, err := a.runsOf(ctx, onboardingKinds, chain.Filter{Site: s.Site, Statuses: liveStatuses}, nil, 0)
	for _, r := range live {
		if o := onboardingResource(r); o.MAASSystemID != nil && *o.MAASSystemID == s.Adopts {
			return nil // the engine names the run that holds the machine
		}
	}
	if err != nil {
		return err
	}
	return broker.Errorf(broker.Refused, "machine_bound",
		"cannot adopt machine %s: node %s is bound to the machine (remove the node first)", s.Adopts, node)
}
