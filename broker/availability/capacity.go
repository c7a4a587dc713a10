package availability

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// Capacity is what a site has of a SKU.
type Capacity struct {
	Site, SKU   string // empty: none
	Place       string // the word of a place, of CapacityByPlace; empty: not known
	GPUsPerNode int    // by the SKU; 0: the SKU has none, or is not on record
	Nodes       map[broker.Availability]int
	Faulty      int // allocated nodes that need a repair
	InRepair    int // nodes in maintenance that need a repair, or that people work on
	// Reserved are free nodes that are kept for the reservations of projects. Nodes counts them among the
	// available ones.
	Reserved int
	// Turnovers is the number of turnovers that ended in the period; Median and P95 are how long
	// they kept a node out of use.
	Turnovers   int
	Median, P95 time.Duration
}

// Delivered counts the nodes on record.
func (c Capacity) Delivered() (n int) {
	for _, of := range c.Nodes {
		n += of
	}
	return n
}

// Healthy counts the nodes that are in use without a fault, or come into use without a repair.
func (c Capacity) Healthy() int {
	return c.Nodes[broker.Available] + c.Nodes[broker.Allocated] - c.Faulty + c.Nodes[broker.InTurnover] +
		c.Nodes[broker.InMaintenance] - c.InRepair
}

// count adds the nodes of a count that need a repair.
func (c *Capacity) count(of store.AvailabilityCount) {
	switch of.Word {
	case broker.Allocated:
		c.Faulty += of.Faulty
	case broker.InMaintenance:
		c.InRepair += of.Faulty
	}
}

// maxTurnovers is how many turnovers are read, however long the period.
const maxTurnovers = 10000

// CapacityOf returns the capacity of sites (nil: all) by site and SKU, with the turnovers that
// ended since from.
func CapacityOf(ctx context.Context, db *store.DB, sites []string, from time.Time) ([]Capacity, error) {
	counts, err := db.CountAvailability(ctx, nil) // a reservation of any site counts the nodes of all
	if err != nil {
		return nil, err
	}
	skus, err := db.SKUs(ctx)
	if err != nil {
		return nil, err
	}
	kept, err := keptOf(ctx, db, "", counts)
	if err != nil {
		return nil, err
	}
	times, err := db.TurnoverTimes(ctx, sites, from, maxTurnovers)
	if err != nil {
		return nil, err
	}
	type key struct{ site, sku string }
	gpus, took, rows := map[string]int{}, map[key][]time.Duration{}, map[key]*Capacity{}
	for _, s := range skus {
		gpus[s.ID] = s.GPUCount
	}
	for _, t := range times {
		took[key{t.Site, t.SKU}] = append(took[key{t.Site, t.SKU}], t.Took)
	}
	for _, c := range counts {
		if sites != nil && !slices.Contains(sites, c.Site) {
			continue
		}
		k := key{c.Site, c.SKU}
		if rows[k] == nil {
			rows[k] = &Capacity{Site: c.Site, SKU: c.SKU, GPUsPerNode: gpus[c.SKU], Nodes: map[broker.Availability]int{}}
			rows[k].Reserved = kept[c.SKU].BySite()[c.Site]
			rows[k].Turnovers, rows[k].Median, rows[k].P95 = len(took[k]), percentile(took[k], 50), percentile(took[k], 95)
		}
		rows[k].Nodes[c.Word] += c.Nodes
		rows[k].count(c)
	}
	out := []Capacity{}
	for _, k := range slices.SortedFunc(maps.Keys(rows), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.site, b.site), cmp.Compare(a.sku, b.sku))
	}) {
		out = append(out, *rows[k])
	}
	return out, nil
}

// MostPlaces is how many counts CapacityByPlace reads.
const MostPlaces = 5000

// CapacityByPlace returns the capacity of sites (nil: all) by the words of a part of the nodes' places. It knows
// neither reservations, which name no nodes, nor turnovers: reserved nodes count as available. Codes: place_invalid,
// capacity_too_wide.
func CapacityByPlace(ctx context.Context, db *store.DB, sites []string, level string) ([]Capacity, error) {
	counts, err := db.CountByPlace(ctx, sites, level, MostPlaces+1)
	if err != nil {
		return nil, err
	}
	if len(counts) > MostPlaces {
		return nil, broker.Errorf(broker.Refused, "capacity_too_wide",
			"cannot count by %s: there are more than %d counts (name a site, or count by a larger part of places)", level, MostPlaces)
	}
	skus, err := db.SKUs(ctx)
	if err != nil {
		return nil, err
	}
	gpus := map[string]int{}
	for _, s := range skus {
		gpus[s.ID] = s.GPUCount
	}
	out := []Capacity{}
	for _, c := range counts { // by site, SKU and place
		last := len(out) - 1
		if last < 0 || out[last].Site != c.Site || out[last].SKU != c.SKU || out[last].Place != c.Place {
			out = append(out, Capacity{
				Site: c.Site, SKU: c.SKU, Place: c.Place, GPUsPerNode: gpus[c.SKU], Nodes: map[broker.Availability]int{},
			})
			last++
		}
		out[last].Nodes[c.Word] += c.Nodes
		out[last].count(c)
	}
	return out, nil
}

// percentile is the smallest value that p of a hundred values do not exceed; 0: there are none.
func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[(len(sorted)*p+99)/100-1]
}
