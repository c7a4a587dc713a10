package onboarding

import (
	"context"
	"errors"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
)

// Refusal is the reason for which a run would refuse a machine.
type Refusal struct {
	SystemID string
	Code     string
	Detail   string
}

// CheckAdoptions looks at machines in MAAS and lists the adoptions to be refused. Nothing is
// changed, and the answer is not binding: a run looks again. Codes: maas_unreached, and the codes
// of Sites.Region.
func (c *Chains) CheckAdoptions(ctx context.Context, site broker.Site, states []Onboarding) ([]Refusal, error) {
	region, err := c.Regions.Region(ctx, site)
	if err != nil {
		return nil, err
	}
	away := func(err error) ([]Refusal, error) {
		return nil, broker.Errorf(broker.Unavailable, "maas_unreached",
			"cannot read the machines in MAAS of site %s: %v (hostler site probe %s)", site.Name, err, site.Name)
	}
	user, err := region.WhoAmI(ctx)
	if err != nil {
		return away(err)
	}
	var ids []string
	for _, s := range states {
		ids = append(ids, s.Adopts)
	}
	found, err := region.FilteredMachines(ctx, maas.ByID(ids)...)
	if err != nil {
		return away(err)
	}
	var out []Refusal
	for _, s := range states {
		s.MAASUser = user
		switch f, err := c.foreseenFailure(ctx, &place{site: site, region: region, run: &run{ID: "-"}, state: &s}, found); {
		case err != nil:
			return nil, err
		case f != nil:
			out = append(out, Refusal{SystemID: s.Adopts, Code: f.Code, Detail: f.Message})
		}
	}
	return out, nil
}

// foreseenFailure returns the failure of an adoption of one machine; nil: no failure is foreseen.
func (c *Chains) foreseenFailure(ctx context.Context, at *place, found maas.Listing) (*chain.Failure, error) {
	id := at.state.Adopts
	n := slices.IndexFunc(found.Machines, func(m maas.Machine) bool { return m.SystemID == id })
	switch {
	case n < 0 && slices.Contains(found.Unread, id):
		return chain.Fail(ambiguity, "MAAS of site %s has machine %s, and its description cannot be read", at.site.Name,
			id).With("machine_unreadable", nil), nil
	case n < 0:
		return at.state.unknown(), nil
	}
	at.Machine = found.Machines[n]
	err := c.adoptable(ctx, at)
	if err == nil {
		_, err = at.sameName()
	}
	if err == nil && at.state.SKU.ID != "" {
		_, err = fits(at.state.SKU, at.Machine)
	}
	if f, ok := errors.AsType[*chain.Failure](err); ok {
		return f, nil
	}
	return nil, err
}
