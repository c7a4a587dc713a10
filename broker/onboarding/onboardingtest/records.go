package onboardingtest

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
)

// Site implements onboarding.Records.
func (b *Book) Site(_ context.Context, ref string) (broker.Site, error) {
	leave, err := b.enter("Site")
	if err != nil {
		return broker.Site{}, err
	}
	defer leave()
	s, ok := b.sites[ref]
	if !ok {
		return s, broker.Errorf(broker.NotFound, "site_not_found", "there is no site %s", ref)
	}
	return s, nil
}

// UsePowerOverride implements onboarding.Records.
func (b *Book) UsePowerOverride(_ context.Context, siteID, pxeMAC, ipmiIP, hostname string) (broker.PowerOverride, bool, error) {
	leave, err := b.enter("UsePowerOverride")
	if err != nil {
		return broker.PowerOverride{}, false, err
	}
	defer leave()
	of := slices.DeleteFunc(slices.Clone(b.Overrides), func(o broker.PowerOverride) bool { return o.SiteID != siteID })
	o, has := broker.SelectPowerOverride(of, pxeMAC, ipmiIP, hostname)
	return o, has, nil
}

// RoCEAssignments implements onboarding.Records.
func (b *Book) RoCEAssignments(_ context.Context, siteID, hostname string) ([]broker.RoCEAssignment, error) {
	leave, err := b.enter("RoCEAssignments")
	if err != nil {
		return nil, err
	}
	defer leave()
	var out []broker.RoCEAssignment
	for _, r := range b.RoCE {
		if r.SiteID == siteID && r.Hostname == hostname {
			out = append(out, r)
		}
	}
	return out, nil
}
