package records

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/turnover"
)

// Past reads what the rules of a policy ask for about a node and its tenants.
func (s *Starts) Past(ctx context.Context, n broker.Node, p broker.ModePolicy, tenants []broker.Occupant) (past turnover.Past, err error) {
	if len(p.ReimageTenants) > 0 && len(tenants) > 0 {
		var ids []string
		for _, o := range tenants {
			ids = append(ids, o.Tenant)
		}
		if past.Organisations, err = s.DB.OrganisationsOf(ctx, ids); err != nil {
			return past, err
		}
	}
	if p.ReimageEvery > 0 {
		if past.Resets, err = s.DB.SoftResets(ctx, n.ID); err != nil {
			return past, err
		}
	}
	var allocations []string
	for _, o := range tenants {
		allocations = append(allocations, o.ID)
	}
	if past.Passed, err = s.DB.PassedReleases(ctx, allocations); err != nil {
		return past, err
	}
	operation, err := s.DB.UnendedOperation(ctx, n.ID)
	if err != nil {
		return past, err
	}
	if operation != "" {
		past.Unended = "the end of operation " + operation + " on it is unknown"
	}
	past.RootSinceReimage, err = s.DB.RootSinceReimage(ctx, n.ID)
	return past, err
}
