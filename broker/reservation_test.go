package broker

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"
)

func reservedFrom(id, project, site string, nodes int, from, to time.Duration) Reservation {
	begin := time.Unix(1_700_000_000, 0)
	return Reservation{ID: id, ProjectID: project, SKU: "h100", Site: site, Nodes: nodes, From: begin.Add(from), To: begin.Add(to), CreatedAt: begin}
}

func TestAReservationHoldsFromItsBeginningAndNotAtItsEnd(t *testing.T) {
	r := reservedFrom("r", "p", "", 1, time.Hour, 2*time.Hour)
	for offset, want := range map[time.Duration]ReservationStatus{
		-time.Microsecond: ReservationPlanned, 0: ReservationInForce, time.Hour - time.Microsecond: ReservationInForce, time.Hour: ReservationOver,
	} {
		if got := r.Status(r.From.Add(offset)); got != want {
			t.Errorf("at %v it is %s, want %s", offset, got, want)
		}
	}
	r.EndedAt = r.From
	if got := r.Status(r.From); got != ReservationEnded {
		t.Errorf("ended by hand, it is %s", got)
	}
}

func TestNoMoreIsReservedThanThereIs(t *testing.T) {
	nodes := map[string]int{"dc1": 4, "dc2": 2}
	others := []Reservation{
		reservedFrom("a", "p", "dc1", 3, 10*time.Hour, 20*time.Hour),
		reservedFrom("b", "p", "", 1, 15*time.Hour, 30*time.Hour),
	}
	for name, row := range map[string]struct {
		r    Reservation
		fits bool
	}{
		"all, before the others":          {reservedFrom("n", "q", "", 6, 0, 10*time.Hour), true},
		"more than there are":             {reservedFrom("n", "q", "", 7, 0, 10*time.Hour), false},
		"at its site":                     {reservedFrom("n", "q", "dc1", 1, 0, 40*time.Hour), true},
		"too many at its site":            {reservedFrom("n", "q", "dc1", 2, 0, 40*time.Hour), false},
		"too many where the periods meet": {reservedFrom("n", "q", "", 3, 19*time.Hour, 20*time.Hour), false},
		"as many as are left":             {reservedFrom("n", "q", "", 2, 19*time.Hour, 20*time.Hour), true},
		"at the end of the first":         {reservedFrom("n", "q", "", 5, 20*time.Hour, 21*time.Hour), true},
		"over the beginning of another":   {reservedFrom("n", "q", "dc2", 2, 14*time.Hour, 16*time.Hour), true},
		"at a site without nodes":         {reservedFrom("n", "q", "dc3", 1, 0, time.Hour), false},
	} {
		err := row.r.Fits(others, nodes)
		if (err == nil) != row.fits || err != nil && AsError(err).Code != "reservation_overbooked" {
			t.Errorf("%s: %v", name, err)
		}
	}
	others[0].EndedAt = others[0].From
	if err := reservedFrom("n", "q", "dc1", 4, 0, 40*time.Hour).Fits(others, nodes); err != nil {
		t.Errorf("one that was ended counts: %v", err)
	}
}

func TestFreeNodesAreKeptForReservations(t *testing.T) {
	at := func(id, project, site string, nodes int) Reservation {
		return reservedFrom(id, project, site, nodes, 0, time.Hour)
	}
	hold := func(project, site string, nodes int) HeldNodes { return HeldNodes{project, "h100", site, nodes} }
	for name, row := range map[string]struct {
		rs   []Reservation
		held []HeldNodes
		want string // held and kept by reservation, then what is kept from q at dc1 and dc2, and from p
	}{
		"nothing":          {nil, nil, "[] 0 0, 0 0"},
		"a site":           {[]Reservation{at("a", "p", "dc1", 3)}, nil, "[a 0 3] 3 0, 0 0"},
		"partly filled":    {[]Reservation{at("a", "p", "dc1", 3)}, []HeldNodes{hold("p", "dc1", 2), hold("q", "dc1", 9)}, "[a 2 1] 1 0, 0 0"},
		"filled elsewhere": {[]Reservation{at("a", "p", "dc1", 3)}, []HeldNodes{hold("p", "dc2", 3)}, "[a 0 3] 3 0, 0 0"},
		"any site":         {[]Reservation{at("a", "p", "", 7)}, []HeldNodes{hold("p", "dc2", 1)}, "[a 1 6] 4 2, 0 0"},
		"both":             {[]Reservation{at("a", "p", "", 2), at("b", "p", "dc2", 1)}, []HeldNodes{hold("p", "dc2", 2)}, "[a 1 1 b 1 0] 0 0, 0 0"},
		"the first has short nodes first": {
			[]Reservation{at("a", "p", "dc1", 3), at("b", "q", "dc1", 3)}, nil, "[a 0 3 b 0 1] 3 0, 1 0",
		},
		"more than there are": {[]Reservation{at("a", "p", "", 20)}, nil, "[a 0 6] 4 2, 0 0"},
	} {
		k := Keep(row.rs, row.held, map[string]int{"dc1": 4, "dc2": 2})
		var all []string
		for _, r := range k.Reservations {
			all = append(all, fmt.Sprint(r.ID, " ", r.Held, " ", r.Kept))
		}
		if got := fmt.Sprint(all, " ", k.From("q", "dc1"), " ", k.From("q", "dc2"), ", ", k.From("p", "dc1"), " ", k.From("p", "dc2")); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}

// Whatever the reservations are: as long as free nodes suffice, a project that takes what it is given
// leaves to each other reservation what it lacks, and the sums by site are those of the reservations.
func TestWhatAProjectIsGivenLeavesTheReservationsOfOthers(t *testing.T) {
	by := rand.New(rand.NewPCG(1, 1))
	sites, projects := []string{"dc1", "dc2", "dc3"}, []string{"p", "q", "r"}
	taken := 0
	for range 5000 {
		free := map[string]int{}
		for _, s := range sites {
			free[s] = by.IntN(8)
		}
		var rs []Reservation
		var held []HeldNodes
		for i := range by.IntN(5) {
			rs = append(rs, reservedFrom(fmt.Sprint(i), projects[by.IntN(3)], append(sites, "")[by.IntN(4)], 1+by.IntN(5), 0, time.Hour))
		}
		for range by.IntN(4) {
			held = append(held, HeldNodes{projects[by.IntN(3)], "h100", sites[by.IntN(3)], by.IntN(4)})
		}
		before := Keep(rs, held, free)
		if got, want := total(before.BySite()), before.sum(func(KeptReservation) bool { return true }); got != want {
			t.Fatalf("%d are kept by site, and %d by reservation: %+v", got, want, before)
		}
		for _, r := range before.Reservations {
			if r.Site != "" && free[r.Site]-before.From(r.ProjectID, r.Site) < r.Kept {
				t.Fatalf("%d nodes are kept for %+v, and its project is not given them: %+v", r.Kept, r.Reservation, before)
			}
		}
		project, site := projects[by.IntN(3)], sites[by.IntN(3)]
		take := free[site] - before.From(project, site)
		for n := range free[site] + 1 {
			if before.Leaves(project, site, n) != (n <= take) {
				t.Fatalf("%s is given %d of %d nodes at %s, and %d leave the reservations: %v", project, take, free[site], site, n, n > take)
			}
		}
		if take < 0 {
			t.Fatalf("%d of %d nodes are kept at %s: %+v", before.From(project, site), free[site], site, before)
		}
		if take == 0 {
			continue
		}
		taken++
		left := maps.Clone(free)
		left[site] -= take
		after := Keep(rs, append(held, HeldNodes{project, "h100", site, take}), left)
		for i, r := range after.Reservations {
			if r.ProjectID != project && r.Held+r.Kept < before.Reservations[i].Held+before.Reservations[i].Kept {
				t.Fatalf("%s takes %d at %s, and reservation %+v has %d and %d: before %+v, free %v", project, take, site, r.Reservation, r.Held,
					r.Kept, before.Reservations[i], free)
			}
		}
	}
	if taken < 1000 {
		t.Errorf("only %d of 5000 take a node", taken)
	}
}
