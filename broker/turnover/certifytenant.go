package turnover

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// mostEarlier is how many allocations before the last a certificate names.
const mostEarlier = 100

// tenant adds the allocations since the node was last handed out clean: the last allocation, with
// whether any tenant had root, the earlier ones, and the parts that left since the first tenant
// came.
func (c *Chains) tenant(ctx context.Context, s *Turnover, out *certificate.Clean, parts Parts) error {
	all, err := c.Nodes.Occupants(ctx, s.NodeID)
	if err != nil {
		return taskstage.Records(err)
	}
	root := false
	for i, a := range all {
		if a.Live() && s.Mode == FullDecommission {
			a.EndedAt = s.TakenAt // ended by force; the user goes with the system
		}
		if a.Live() {
			return chain.Fail(ambiguity, "allocation %s is on node %s again, or was never ended", a.Describe(),
				s.NodeID).With("allocation_live", nil)
		}
		all[i], root = a, root || a.HadRoot
	}
	if len(all) == 0 {
		acceptedBaselines(out, parts, s.TakenAt)
		return nil
	}
	slices.SortStableFunc(all, func(a, b broker.Occupant) int { return b.EndedAt.Compare(a.EndedAt) })
	for _, a := range all[1:] {
		if len(out.Earlier) == mostEarlier {
			out.EarlierOmitted = len(all) - 1 - mostEarlier
			break
		}
		out.Earlier = append(out.Earlier, *allocation(a))
	}
	out.Allocation = allocation(all[0])
	out.Allocation.HadRoot = root
	since := slices.MinFunc(all, func(a, b broker.Occupant) int { return a.Since.Compare(b.Since) }).Since
	acceptedBaselines(out, parts, since)
	for _, d := range parts.Devices {
		if d.State == broker.DeviceRemoved && d.Since.After(since) && !parts.attested(d) {
			out.Exposures = append(out.Exposures, certificate.Exposure{
				Code: certificate.ExposureAcceptedGone,
				Message: fmt.Sprintf("%s %s is gone, with the data on it; accepted at %s because: %s", d.Kind, d.ID,
					d.Since.UTC().Format(time.RFC3339), d.Reason),
			})
		}
	}
	return nil
}

// acceptedBaselines adds an exposure for each baseline that a person accepted since a tenant
// came: the baseline may include changes by the tenant.
func acceptedBaselines(out *certificate.Clean, parts Parts, since time.Time) {
	for _, a := range parts.Baselines {
		if a.At.After(since) {
			out.Exposures = append(out.Exposures, certificate.Exposure{
				Code:    certificate.ExposureBaseline,
				Message: fmt.Sprintf("the node's baseline was accepted by %s at %s, after a tenant could have changed the node, because: %s", a.By, a.At.UTC().Format(time.RFC3339), taskcatalog.Clean(a.Reason, 500)),
			})
		}
	}
}

func allocation(a broker.Occupant) *certificate.Allocation {
	return &certificate.Allocation{ID: a.ID, Tenant: a.Tenant, HadRoot: a.HadRoot, Forced: a.ForcedBy != "", ReleasedAt: a.EndedAt}
}
