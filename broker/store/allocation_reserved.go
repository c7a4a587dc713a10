package store

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
)

// heedReservations reads the reservations of the SKU. The gate lets no reservation be made until the
// transaction ends. Placements of a SKU with a reservation, planned ones included, lock its row and so
// come one after another: each sees what the one before has claimed, and a reservation that begins
// meanwhile is broken by none.
func (p *placement) heedReservations(ctx context.Context) error {
	if err := p.lock(ctx, p.GateShared(), reservationGate); err != nil {
		return err
	}
	all, err := p.reservations(ctx, p.n.SKU, p.clock())
	if err != nil {
		return err
	}
	now := p.clock() // the locks may have been waited for
	p.reserved = slices.DeleteFunc(all, func(r broker.Reservation) bool { return r.Status(now) != broker.ReservationInForce })
	p.held, err = heldNodes(ctx, p, p.n.SKU, p.reserved)
	return err
}

// leavesReserved reports whether the reservations of other projects have as much as before if the
// allocation gets its nodes at a site. Free nodes are counted up to the number that could matter.
func (p *placement) leavesReserved(ctx context.Context, site string) (leaves bool, err error) {
	if len(p.reserved) == 0 {
		return true, nil
	}
	sites := []string{site}
	if slices.ContainsFunc(p.reserved, func(r broker.Reservation) bool { return r.Site == "" }) {
		if sites, err = p.allSites(ctx); err != nil {
			return false, err
		}
	}
	most := p.n.Nodes
	for _, r := range p.reserved {
		most += r.Nodes
	}
	free := map[string]int{}
	for _, s := range sites {
		n, err := p.countFree(ctx, s, most)
		if err != nil {
			return false, err
		}
		free[s] = n
	}
	return broker.Keep(p.reserved, p.held, free).Leaves(p.n.ProjectID, site, p.n.Nodes), nil
}

// countFree counts the nodes of a site that may be handed out, until there are as many as asked for.
// Whole pages are judged: many nodes in a row may be silent.
func (p *placement) countFree(ctx context.Context, site string, most int) (int, error) {
	if n, counted := p.free[site]; counted {
		return n, nil
	}
	n := 0
	for last := (spot{}); n < most; {
		free, end, err := p.judge(ctx, site, anyImage, "", last, broker.ProjectPlacement{})
		if err != nil {
			return 0, err
		}
		if end.id == "" {
			break
		}
		n, last = n+len(free), end
	}
	p.free[site] = n
	return n, nil
}
