package adminapi

import (
	"context"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
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
