package adminapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// availabilities reads a filter. Code: availability_unknown.
func availabilities(list string) ([]broker.Availability, error) {
	var out []broker.Availability
	for name := range strings.SplitSeq(list, ",") {
		if name == "" {
			continue
		}
		if !slices.Contains(broker.Availabilities, broker.Availability(name)) {
			return nil, broker.Errorf(broker.Invalid, "availability_unknown", "cannot filter by availability %q: there is no such availability",
				taskcatalog.Clean(name, 40))
		}
		out = append(out, broker.Availability(name))
	}
	return out, nil
}

// addAvailability adds to nodes their availability on record.
func (a *API) addAvailability(ctx context.Context, nodes []api.Node) error {
	var ids []string
	for _, n := range nodes {
		ids = append(ids, n.ID)
	}
	record, err := a.c.DB.Availability(ctx, ids)
	for i, n := range nodes {
		r := record[n.ID]
		nodes[i].NodeAvailability = api.NodeAvailability{
			Availability: string(r.Word), AvailabilityCodes: r.Codes, AvailabilitySince: r.Since, AvailabilityAt: r.At,
		}
	}
	return err
}

// closedSites adds alerts for disabled sites with nodes that could be handed out.
func (a *API) closedSites(ctx context.Context, out *api.Status, sites []string) error {
	all, err := a.c.DB.ClosedSites(ctx, sites)
	for _, c := range all {
		out.Alerts = append(out.Alerts, api.Alert{
			Code: "site_disabled", Since: c.Since,
			Message: fmt.Sprintf("site %s: %d nodes are handed to nobody, because the site is disabled (hostler site enable %s)", c.Site, c.Nodes, c.Site),
		})
	}
	return err
}

// leftAlone adds alerts for sites with nodes that need a turnover, and which nobody turns over.
func (a *API) leftAlone(ctx context.Context, out *api.Status, sites []string) error {
	all, err := a.c.DB.LeftAlone(ctx, sites)
	for _, l := range all {
		out.Alerts = append(out.Alerts, api.Alert{
			Code: "turnover_not_begun", Since: l.Since,
			Message: fmt.Sprintf("site %s: %d nodes whose tenant left, or whose certificate ran out or fell below the policy, more than %v ago are idle, because no turnover is under way (hostler node list --availability in_turnover,held; then hostler decommission start NODE --mode soft_reset --reason R)",
				cmp.Or(l.Site, "none"), l.Nodes, store.TurnoverWithin),
		})
	}
	return err
}

// unprovisionable adds alerts for sites with nodes that are held because they could not be provisioned.
func (a *API) unprovisionable(ctx context.Context, out *api.Status, sites []string) error {
	all, err := a.c.DB.Unprovisionable(ctx, sites)
	for _, u := range all {
		out.Alerts = append(out.Alerts, api.Alert{
			Code: "provisioning_failing", Since: u.Since,
			Message: fmt.Sprintf("site %s: %d nodes are handed to nobody, because they could not be provisioned again and again (hostler node list --availability held; hostler node show NODE says why; repair the cause, then hostler node activate NODE --reason R)",
				cmp.Or(u.Site, "none"), u.Nodes),
		})
	}
	return err
}
