package availability

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

func TestCapacityIsCountedBySiteAndSKU(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		k := broker.NewSKU()
		k.ID, k.GPUVendor, k.GPUCount = "h100.8gpu", "nvidia", 8
		_, err := db.CreateSKU(t.Context(), broker.System, k)
		must(err)
		for i, sku := range []string{k.ID, k.ID, k.ID, "", k.ID} {
			id := fmt.Sprint("n-", i)
			active(t, db, id, store.NewNode{Site: "dc1", SKU: sku})
			must(db.TouchNodes(t.Context(), map[string]time.Time{id: clock.Now()}))
		}
		active(t, db, "n-9", store.NewNode{Site: "dc2", SKU: k.ID})
		_, err = db.Transition(t.Context(), broker.System, "n-1", store.Change{To: broker.Quarantined, By: broker.OwnerOperator})
		must(err)
		begun := clock.Now()
		_, err = db.BeginTurnover(t.Context(), broker.System, store.Turnover{NodeID: "n-2", RunID: "r-2", Reason: "test"})
		must(err)
		_, err = db.Transition(t.Context(), broker.System, "n-2", store.Change{To: broker.Retired, By: broker.OwnerDrain})
		must(err)
		clock.Advance(30 * time.Minute)
		_, err = db.Transition(t.Context(), broker.System, "n-2", store.Change{To: broker.Active, By: broker.OwnerOverride, ClearTurnover: true})
		must(err)
		for _, id := range []string{"n-0", "n-2", "n-3"} {
			must(db.TouchNodes(t.Context(), map[string]time.Time{id: clock.Now()}))
		}
		_, err = db.SweepAvailability(t.Context())
		must(err)
		_, err = db.CreateNode(t.Context(), broker.System, store.NewNode{ID: "n-7", Hostname: "n-7", Bootstrap: "command", Site: "dc1", SKU: k.ID})
		must(err)

		rack, zone := "c07", "az1"
		_, err = db.ChangePlaces(t.Context(), broker.System, map[string]broker.NodePlaceChange{
			"n-0": {Rack: &rack, Zone: &zone}, "n-1": {Rack: &rack}, "n-9": {Rack: &rack},
		})
		must(err)
		for _, c := range []struct {
			level string
			sites []string
			want  []string
		}{
			{"rack", nil, []string{
				"dc1   map[available:1]", "dc1 h100.8gpu  map[available:1 held:1 unknown:1]", "dc1 h100.8gpu c07 map[available:1 held:1]",
				"dc2 h100.8gpu c07 map[held:1]",
			}},
			{"zone", []string{"dc1"}, []string{
				"dc1   map[available:1]", "dc1 h100.8gpu  map[available:1 held:2 unknown:1]", "dc1 h100.8gpu az1 map[available:1]",
			}},
		} {
			rows, err := CapacityByPlace(t.Context(), db, c.sites, c.level)
			must(err)
			var got []string
			for _, r := range rows {
				got = append(got, fmt.Sprint(r.Site, " ", r.SKU, " ", r.Place, " ", r.Nodes))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("by %s:\n%q, want\n%q", c.level, got, c.want)
			}
		}
		if _, err := CapacityByPlace(t.Context(), db, nil, "unit"); broker.AsError(err).Code != "place_invalid" {
			t.Errorf("by unit: %v", err)
		}

		all, err := CapacityOf(t.Context(), db, nil, begun)
		must(err)
		var got []string
		for _, c := range all {
			got = append(got, fmt.Sprint(c.Site, " ", c.SKU, " ", c.GPUsPerNode, " ", c.Delivered(), " ", c.Healthy(), " ", c.Nodes, " ", c.Turnovers, " ", c.Median, " ", c.P95))
		}
		want := []string{
			"dc1  0 1 1 map[available:1] 0 0s 0s",
			"dc1 h100.8gpu 8 5 2 map[available:2 held:2 unknown:1] 1 30m0s 30m0s",
			"dc2 h100.8gpu 8 1 0 map[held:1] 0 0s 0s",
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("capacity is\n%q, want\n%q", got, want)
		}
		org, err := db.CreateOrganisation(t.Context(), broker.System, broker.Organisation{ID: "org-1", Name: "acme"})
		must(err)
		_, err = db.CreateProject(t.Context(), broker.System, broker.Project{ID: "p-1", OrganisationID: org.ID, Name: "lab"})
		must(err)
		_, err = db.CreateReservation(t.Context(), broker.System, broker.Reservation{ID: "rsv-1", ProjectID: "p-1", SKU: k.ID, Nodes: 3, To: clock.Now().Add(time.Hour)}, "r")
		must(err)
		all, err = CapacityOf(t.Context(), db, []string{"dc1"}, begun)
		must(err)
		if all[0].Reserved != 0 || all[1].Reserved != 2 || all[1].Nodes[broker.Available] != 2 {
			t.Errorf("with a reservation of three nodes, of which two are free: %+v", all)
		}
		if kept, err := KeptNodes(t.Context(), db, k.ID); err != nil || kept[k.ID].Reservations[0].Kept != 2 {
			t.Errorf("kept are %+v, %v", kept, err)
		}
		if one, err := CapacityOf(t.Context(), db, []string{"dc2"}, begun); err != nil || len(one) != 1 || one[0].Site != "dc2" {
			t.Errorf("of one site: %+v (%v)", one, err)
		}
	})
}

// An allocated node that needs a repair is not healthy.
func TestAFaultyNodeWithATenantIsNotHealthy(t *testing.T) {
	c := Capacity{Nodes: map[broker.Availability]int{
		broker.Available: 1, broker.Allocated: 4, broker.InTurnover: 1, broker.InMaintenance: 1, broker.Held: 1, broker.OutOfService: 1,
	}, Faulty: 3}
	if got := c.Healthy(); got != 4 {
		t.Errorf("%d are healthy, want 4", got)
	}
}

func TestPercentiles(t *testing.T) {
	var all []time.Duration
	for _, c := range []struct {
		add         time.Duration
		median, p95 time.Duration
	}{{0, 0, 0}, {5, 5, 5}, {1, 1, 5}, {9, 5, 9}} {
		if c.add > 0 {
			all = append(all, c.add)
		}
		if m, p := percentile(all, 50), percentile(all, 95); m != c.median || p != c.p95 {
			t.Errorf("of %v the median is %d and the 95th percentile %d, want %d and %d", all, m, p, c.median, c.p95)
		}
	}
}
