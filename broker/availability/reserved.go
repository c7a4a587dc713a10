package availability

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// KeptNodes returns what is kept for the reservations in force of a SKU, or of all if it is empty, by
// SKU. The free nodes are those on record, at all sites. Whoever hands out nodes counts them anew.
func KeptNodes(ctx context.Context, db *store.DB, sku string) (map[string]broker.Kept, error) {
	counts, err := db.CountAvailability(ctx, nil)
	if err != nil {
		return nil, err
	}
	return keptOf(ctx, db, sku, counts)
}

// keptOf is KeptNodes of the nodes that were counted: a second count may differ from the first.
func keptOf(ctx context.Context, db *store.DB, sku string, counts []store.AvailabilityCount) (map[string]broker.Kept, error) {
	inForce, held, err := db.InForce(ctx, "", sku)
	if err != nil || len(inForce) == 0 {
		return nil, err
	}
	skus, err := db.SKUs(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]broker.Kept{}
	for _, s := range skus {
		if len(inForce[s.ID]) == 0 {
			continue
		}
		free := map[string]int{}
		for _, c := range counts {
			if c.SKU == s.ID && c.Word == broker.Available && s.OfferedAt(c.Site) {
				free[c.Site] += c.Nodes
			}
		}
		out[s.ID] = broker.Keep(inForce[s.ID], held[s.ID], free)
	}
	return out, nil
}
