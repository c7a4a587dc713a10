package broker

import (
	"maps"
	"slices"
	"sort"
	"time"
)

// Reservation is a number of nodes of a SKU that a project is to have in a period, and that no other
// project is given meanwhile. A reservation names no nodes: it counts.
type Reservation struct {
	ID, ProjectID, SKU string
	Site               string // empty: at any site
	Nodes              int
	From, To           time.Time // From is within the period, To is not
	CreatedAt          time.Time
	EndedAt            time.Time // by hand, before To; zero: not
}

// ReservationPrefix begins the ids of reservations.
const ReservationPrefix = "rsv-"

// ReservationStatus is where a reservation is in its period.
type ReservationStatus string

// The statuses. ReservationOver and ReservationEnded are final.
const (
	ReservationPlanned ReservationStatus = "planned"  // the period has not begun
	ReservationInForce ReservationStatus = "in_force" // nodes are kept
	ReservationOver    ReservationStatus = "over"     // the period has passed
	ReservationEnded   ReservationStatus = "ended"    // by hand
)

// Status returns the status at a time.
func (r Reservation) Status(at time.Time) ReservationStatus {
	switch {
	case !r.EndedAt.IsZero():
		return ReservationEnded
	case !at.Before(r.To):
		return ReservationOver
	case at.Before(r.From):
		return ReservationPlanned
	}
	return ReservationInForce
}

// ReservationNotFound is the answer about a reservation that does not exist, or that the caller may
// not know. Code: reservation_not_found.
func ReservationNotFound(id string) *Error {
	return Errorf(NotFound, "reservation_not_found", "there is no reservation %q (see hostler reservation list)", cleanText(id))
}

// Fits refuses a reservation that, together with the others of the SKU, is of more nodes than there
// are, by site, at any moment of its period. Whether a node is in use now does not count. Code:
// reservation_overbooked.
func (r Reservation) Fits(others []Reservation, nodes map[string]int) error {
	moments := []time.Time{r.From} // the sum is largest where a period begins
	for _, o := range others {
		if o.From.After(r.From) && o.From.Before(r.To) {
			moments = append(moments, o.From)
		}
	}
	slices.SortFunc(moments, time.Time.Compare)
	have := total(nodes)
	for _, at := range moments {
		all, there := 0, 0
		for _, o := range others {
			if o.Status(at) != ReservationInForce {
				continue
			}
			if all += o.Nodes; o.Site == r.Site {
				there += o.Nodes
			}
		}
		switch {
		case r.Site != "" && there+r.Nodes > nodes[r.Site]:
			return Errorf(Refused, "reservation_overbooked",
				"cannot reserve %d nodes of SKU %s at %s: there are %d nodes, and %d of them are reserved at %s (reserve fewer, or another period)",
				r.Nodes, r.SKU, r.Site, nodes[r.Site], there, at.UTC().Format(time.RFC3339))
		case all+r.Nodes > have:
			return Errorf(Refused, "reservation_overbooked",
				"cannot reserve %d nodes of SKU %s: there are %d nodes where it is offered, and %d of them are reserved at %s (reserve fewer, or another period)",
				r.Nodes, r.SKU, have, all, at.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// HeldNodes is how many nodes of a SKU a project holds at a site.
type HeldNodes struct {
	ProjectID, SKU, Site string
	Nodes                int
}

// KeptReservation is a reservation in force with what it has.
type KeptReservation struct {
	Reservation
	Held int // nodes that the project holds
	Kept int // free nodes that no other project is given
}

// Missing is how many nodes the reservation lacks: they are in use elsewhere or out of use.
func (r KeptReservation) Missing() int { return r.Nodes - r.Held - r.Kept }

// Kept says which of the free nodes of a SKU are kept for reservations. Free nodes are those at the
// sites where the SKU is offered.
type Kept struct {
	Reservations []KeptReservation
	held         []HeldNodes
	free         map[string]int // by site
}

// Keep shares the free nodes of a SKU among the reservations in force. What a project holds counts
// first, whenever it was allocated: at the reservation's site, and then for a reservation of any
// site. If free nodes are short, the reservation that was made first has them first.
func Keep(inForce []Reservation, held []HeldNodes, free map[string]int) Kept {
	k := Kept{held: held, free: free}
	left := map[[2]string]int{} // what a project holds at a site beyond its reservations
	for _, h := range held {
		left[[2]string{h.ProjectID, h.Site}] += h.Nodes
	}
	for _, r := range inForce {
		k.Reservations = append(k.Reservations, KeptReservation{Reservation: r})
	}
	slices.SortStableFunc(k.Reservations, func(a, b KeptReservation) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for _, ofSite := range []bool{true, false} {
		for i := range k.Reservations {
			r := &k.Reservations[i]
			for at, n := range left {
				if at[0] == r.ProjectID && (ofSite && at[1] == r.Site || !ofSite && r.Site == "") {
					take := min(n, r.Nodes-r.Held)
					r.Held += take
					left[at] -= take
				}
			}
		}
	}
	for i := range k.Reservations {
		r := &k.Reservations[i]
		room := total(free) - k.sum(func(KeptReservation) bool { return true })
		if r.Site != "" {
			room = min(room, free[r.Site]-k.sum(func(o KeptReservation) bool { return o.Site == r.Site }))
		}
		r.Kept = min(r.Nodes-r.Held, room)
	}
	return k
}

func (k Kept) sum(of func(KeptReservation) bool) (n int) {
	for _, r := range k.Reservations {
		if of(r) {
			n += r.Kept
		}
	}
	return n
}

// Leaves reports whether every other project's reservation has as much as before, after the project took
// n of the free nodes at a site. Nodes that fill a reservation of the project itself leave the most.
func (k Kept) Leaves(projectID, site string, n int) bool {
	free := maps.Clone(k.free)
	if free[site] -= n; free[site] < 0 {
		return false
	}
	rs := make([]Reservation, len(k.Reservations))
	for i, r := range k.Reservations {
		rs[i] = r.Reservation
	}
	after := Keep(rs, append(slices.Clip(k.held), HeldNodes{ProjectID: projectID, Site: site, Nodes: n}), free)
	for i, r := range k.Reservations {
		if r.ProjectID != projectID && after.Reservations[i].Held+after.Reservations[i].Kept < r.Held+r.Kept {
			return false
		}
	}
	return true
}

// OwnFirst returns sites in the order in which a project's requests look at them: first those where a
// reservation of the project is not filled yet, so that nodes that are kept for the project are used before
// nodes that others may have.
func (k Kept) OwnFirst(projectID string, sites []string) []string {
	own := func(site string) bool {
		return slices.ContainsFunc(k.Reservations, func(r KeptReservation) bool {
			return r.ProjectID == projectID && site != "" && r.Site == site && r.Held < r.Nodes
		})
	}
	sites = slices.Clone(sites)
	slices.SortStableFunc(sites, func(a, b string) int {
		switch ofA := own(a); {
		case ofA == own(b):
			return 0
		case ofA:
			return -1
		}
		return 1
	})
	return sites
}

// From returns how many of the free nodes at a site are kept from a project: it is given the others.
func (k Kept) From(projectID, site string) int {
	if len(k.Reservations) == 0 {
		return 0
	}
	given := sort.Search(k.free[site], func(n int) bool { return !k.Leaves(projectID, site, n+1) })
	return k.free[site] - given
}

// BySite counts the kept nodes by site. The nodes of a reservation of any site are counted at the
// last sites: a placement begins at the first.
func (k Kept) BySite() map[string]int {
	out := map[string]int{}
	anywhere := 0
	for _, r := range k.Reservations {
		if r.Site != "" {
			out[r.Site] += r.Kept
		} else {
			anywhere += r.Kept
		}
	}
	sites := make([]string, 0, len(k.free))
	for site := range k.free {
		sites = append(sites, site)
	}
	slices.Sort(sites)
	for _, site := range slices.Backward(sites) {
		take := min(anywhere, k.free[site]-out[site])
		out[site] += take
		anywhere -= take
	}
	return out
}

func total(bySite map[string]int) (n int) {
	for _, of := range bySite {
		n += of
	}
	return n
}
