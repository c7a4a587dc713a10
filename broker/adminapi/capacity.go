package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/availability"
)

type capacityInput struct {
	Site string `query:"site" maxLength:"63"`
	By   string `query:"by" enum:"zone,room,row,rack,domain" doc:"count by the words of this part of the places, too; without reservations and turnovers"`
}

// capacity counts nodes and GPUs by site, SKU and availability. The figures of turnovers are those
// of the last seven days.
func (a *API) capacity(ctx context.Context, in *capacityInput) (*api.Capacity, error) {
	sites, err := visibleSites(callerOf(ctx), in.Site)
	if err != nil {
		return nil, err
	}
	to := a.c.Now().UTC()
	out := &api.Capacity{From: to.Add(-usualFigures), To: to, Rows: []api.CapacityRow{}}
	var rows []availability.Capacity
	if in.By != "" {
		out.By = in.By
		rows, err = availability.CapacityByPlace(ctx, a.c.DB, sites, in.By)
	} else {
		rows, err = availability.CapacityOf(ctx, a.c.DB, sites, out.From)
	}
	for _, c := range rows {
		out.Rows = append(out.Rows, api.CapacityRow{
			Site: c.Site, SKU: c.SKU, Place: c.Place,
			GPUs: capacityCounts(c, c.GPUsPerNode), Nodes: capacityCounts(c, 1), Turnovers: int64(c.Turnovers),
			TurnoverMedianMinutes: c.Median.Minutes(), TurnoverP95Minutes: c.P95.Minutes(),
		})
	}
	return out, err
}

// capacityCounts counts a part of which each node has a number.
func capacityCounts(c availability.Capacity, each int) api.CapacityCounts {
	of := func(word broker.Availability) int64 { return int64(c.Nodes[word] * each) }
	reserved := int64(c.Reserved * each)
	return api.CapacityCounts{
		Delivered: int64(c.Delivered() * each), Healthy: int64(c.Healthy() * each),
		Available: of(broker.Available) - reserved, Reserved: reserved, Allocated: of(broker.Allocated), InTurnover: of(broker.InTurnover),
		Maintenance: of(broker.InMaintenance), Held: of(broker.Held), OutOfService: of(broker.OutOfService),
		Unknown: of(broker.AvailabilityUnknown),
	}
}
