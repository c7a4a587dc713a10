package store_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// reserves makes a reservation of p-2 of nodes of h100, from some time on and for a day.
func reserves(db *store.DB, id, site string, nodes int, in time.Duration) (broker.Reservation, error) {
	from := db.Now().Add(in)
	return db.CreateReservation(ctx, admin, broker.Reservation{
		ID: id, ProjectID: "p-2", SKU: "h100", Site: site, Nodes: nodes, From: from, To: from.Add(24 * time.Hour),
	}, "contract 17")
}

// asksAs requests whole nodes of h100 for a project.
func asksAs(db *store.DB, project, id, site string, nodes int) (broker.Allocation, error) {
	return db.CreateAllocation(ctx, admin, store.NewAllocation{
		ID: id, ProjectID: project, AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: nodes, Site: site}, KeyIDs: []string{"k-1"},
	})
}

// heard touches all nodes of h100, so that none is silent.
func heard(t *testing.T, db *store.DB) {
	t.Helper()
	ok(t, store.Exec(ctx, db, `UPDATE nodes SET last_contact_at = $1`, db.Now().Add(time.Hour).UnixMicro()))
}

// Reserved nodes are given to the project of the reservation alone, from its beginning until its end.
func TestReservedNodesAreGivenToTheirProjectAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		newSite(t, db, "dc1")
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 6)
		r := must(reserves(db, "rsv-1", "dc1", 3, time.Hour))(t)
		if audited(t, db, "reservation.create", "") != 1 {
			t.Error("the reservation is not on record")
		}
		clock.Advance(time.Hour - time.Microsecond)
		heard(t, db)
		before := must(asksAs(db, "p-1", "a-1", "", 2))(t) // not in force yet
		clock.Advance(time.Microsecond)
		if r.Status(db.Now()) != broker.ReservationInForce {
			t.Fatalf("it is %s", r.Status(db.Now()))
		}
		_, err := asksAs(db, "p-1", "a-2", "", 2) // four are free, and three of them reserved
		refused(t, err, "sku_unavailable")
		if text := err.Error(); text != "cannot allocate SKU h100: no site has 2 nodes free (ask for fewer nodes, for another site, or later)" {
			t.Errorf("another project reads %q", text)
		}
		must(asksAs(db, "p-1", "a-3", "", 1))(t)
		_, err = asksAs(db, "p-1", "a-4", "dc1", 1)
		refused(t, err, "sku_unavailable")
		must(asksAs(db, "p-2", "a-5", "", 2))(t) // of its own
		_, err = asksAs(db, "p-1", "a-6", "", 1)
		refused(t, err, "sku_unavailable")
		// A node that another project gives back goes to nobody else either: one is free, and one is unfilled.
		must(asksAs(db, "p-2", "a-7", "", 1))(t)
		_, err = asksAs(db, "p-2", "a-8", "", 1)
		refused(t, err, "sku_unavailable")
		walk(t, db, before, waysTo[broker.AllocationFailed]...)
		must(asksAs(db, "p-1", "a-9", "", 2))(t) // the reservation is filled

		walk(t, db, must(db.Allocation(ctx, "a-5"))(t), waysTo[broker.AllocationFailed]...) // two of the reservation are free again
		_, err = asksAs(db, "p-1", "a-10", "", 1)
		refused(t, err, "sku_unavailable")
		clock.Advance(24*time.Hour - time.Microsecond)
		heard(t, db)
		_, err = asksAs(db, "p-1", "a-11", "", 1)
		refused(t, err, "sku_unavailable")
		clock.Advance(time.Microsecond)
		must(asksAs(db, "p-1", "a-12", "", 2))(t)
	})
}

func TestAReservationThatIsEndedKeepsNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 2)
		if r := must(reserves(db, "rsv-1", "", 2, -time.Hour))(t); !r.From.Equal(clock.Now()) {
			t.Errorf("a beginning that has passed: %+v", r)
		}
		_, err := asksAs(db, "p-1", "a-1", "", 1)
		refused(t, err, "sku_unavailable")
		clock.Advance(time.Second)
		heard(t, db)
		ended := must(db.EndReservation(ctx, admin, "rsv-1", "paid no longer"))(t)
		if !ended.EndedAt.Equal(clock.Now()) || audited(t, db, "reservation.end", "") != 1 {
			t.Errorf("%+v", ended)
		}
		clock.Advance(time.Second)
		heard(t, db)
		if again := must(db.EndReservation(ctx, admin, "rsv-1", "r"))(t); !again.EndedAt.Equal(ended.EndedAt) || audited(t, db, "reservation.end", "") != 1 {
			t.Errorf("ended again: %+v", again)
		}
		must(asksAs(db, "p-1", "a-1", "", 1))(t)
		_, err = db.EndReservation(ctx, admin, "rsv-none", "r")
		refused(t, err, "reservation_not_found")

		// A project that ends takes its reservations with it.
		must(reserves(db, "rsv-2", "", 1, 0))(t)
		must(reserves(db, "rsv-3", "", 1, time.Hour))(t)
		_, err = asksAs(db, "p-1", "a-2", "", 1)
		refused(t, err, "sku_unavailable")
		must(db.EndProject(ctx, admin, "p-2", "done"))(t)
		must(asksAs(db, "p-1", "a-2", "", 1))(t)
		if all, _, err := db.Reservations(ctx, store.ReservationFilter{}); err != nil || len(all) != 0 {
			t.Errorf("left are %+v, %v", all, err)
		}
		_, err = reserves(db, "rsv-4", "", 1, time.Hour)
		refused(t, err, "project_ended")
	})
}

// A reservation of any site counts the nodes of all sites together.
func TestAReservationOfAnySiteCountsAllSites(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 3)
		stock(t, db, "h100", "dc2", 3)
		must(reserves(db, "rsv-1", "", 4, 0))(t)
		_, err := asksAs(db, "p-1", "a-1", "dc1", 3)
		refused(t, err, "sku_unavailable")
		must(asksAs(db, "p-1", "a-1", "dc1", 2))(t)
		_, err = asksAs(db, "p-1", "a-2", "dc2", 1)
		refused(t, err, "sku_unavailable")
		must(asksAs(db, "p-2", "a-3", "dc2", 3))(t)
		must(asksAs(db, "p-2", "a-4", "", 1))(t)
	})
}

// A node that the project has given back fills no reservation, however long its turnover takes.
func TestAReturnedNodeFillsNoReservation(t *testing.T) {
	for _, returned := range []broker.AllocationStatus{broker.AllocationReleasing, broker.AllocationReleaseFailed} {
		storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
			newSite(t, db, "dc1")
			offered(t, db, "h100")
			stock(t, db, "h100", "dc1", 3)
			id := must(db.Site(ctx, "dc1"))(t).ID
			if r := must(reserves(db, "rsv-1", id, 2, 0))(t); r.Site != "dc1" { // named by its id
				t.Errorf("%+v", r)
			}
			walk(t, db, must(asksAs(db, "p-2", "a-1", "", 1))(t), waysTo[returned]...)
			_, err := asksAs(db, "p-1", "a-2", "", 1) // two are free, and both reserved
			refused(t, err, "sku_unavailable")
			must(asksAs(db, "p-2", "a-3", "", 2))(t)
		})
	}
}

func TestAReservationThatCannotBeKeptIsRefused(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		newSite(t, db, "dc1")
		newSite(t, db, "dc2")
		newSite(t, db, "dc3")
		s := broker.NewSKU()
		s.ID, s.Offer.Sites = "h100", []string{"dc1", "dc2"}
		offers(t, db, s)
		stock(t, db, "h100", "dc1", 2)
		stock(t, db, "h100", "dc2", 1)
		stock(t, db, "h100", "dc3", 9)
		must(asksAs(db, "p-1", "a-1", "dc1", 2))(t) // nodes in use count
		must(reserves(db, "rsv-1", "dc1", 2, time.Hour))(t)
		no := 0
		for _, row := range []struct {
			site  string
			nodes int
			in    time.Duration
			code  string
		}{
			{"dc1", 1, 0, "reservation_overbooked"}, // its period reaches that of the first
			{"", 2, 0, "reservation_overbooked"},
			{"dc3", 1, 0, "sku_unavailable"},
			{"dc9", 1, 0, "site_not_found"},
			{"", 0, 0, "reservation_invalid"},
			{"", 1, -25 * time.Hour, "reservation_invalid"}, // over
		} {
			no++
			_, err := reserves(db, fmt.Sprint("rsv-no-", no), row.site, row.nodes, row.in)
			refused(t, err, row.code)
			if audited(t, db, "reservation.create", row.code) == 0 {
				t.Errorf("the refusal %s is not on record", row.code)
			}
			clock.Advance(time.Minute)
		}
		for _, r := range []broker.Reservation{
			{ID: "rsv-x", ProjectID: "p-2", SKU: "none", Nodes: 1, To: clock.Now().Add(time.Hour)},
			{ID: "rsv-x", ProjectID: "p-none", SKU: "h100", Nodes: 1, To: clock.Now().Add(time.Hour)},
		} {
			if _, err := db.CreateReservation(ctx, admin, r, ""); broker.AsError(err).Kind != broker.NotFound {
				t.Errorf("%+v: %v", r, err)
			}
		}
		must(reserves(db, "rsv-2", "", 1, 0))(t)
		must(reserves(db, "rsv-3", "dc1", 2, 26*time.Hour))(t)
		all, next, err := db.Reservations(ctx, store.ReservationFilter{ProjectID: "p-2", Sites: []string{"dc2"}, Limit: 10})
		if err != nil || next != "" || len(all) != 1 || all[0].ID != "rsv-2" {
			t.Errorf("at dc2 there are %+v, %q, %v", all, next, err)
		}
	})
}

// A SKU has a bounded number of reservations that are not over.
func TestReservationsOfASKUAreBounded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 1)
		for i := range 100 {
			must(reserves(db, fmt.Sprintf("rsv-%03d", i), "", 1, time.Duration(25*i)*time.Hour))(t)
		}
		_, err := reserves(db, "rsv-100", "", 1, 100*25*time.Hour)
		refused(t, err, "reservation_limit")
		clock.Advance(25 * time.Hour)
		must(reserves(db, "rsv-100", "", 1, 100*25*time.Hour))(t)
	})
}

// Fifty requests of other projects for nodes of which some are reserved: the others get what is not
// reserved, to the last node, and the project all that it has reserved, by three brokers on PostgreSQL
// as by one on SQLite. Requests of one project alone would not race: its quota has them one by one.
func TestARaceBreaksNoReservation(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			const nodes, reserved, askers = 30, 12, 50
			url := storetest.URL(t, engine)
			brokers := []*store.DB{storetest.Reopen(t, url, nil)}
			if engine == "postgres" {
				brokers = append(brokers, storetest.Reopen(t, url, nil), storetest.Reopen(t, url, nil))
			}
			newSite(t, brokers[0], "dc1")
			offered(t, brokers[0], "h100")
			stock(t, brokers[0], "h100", "dc1", nodes/2)
			stock(t, brokers[0], "h100", "dc2", nodes/2)
			must(reserves(brokers[0], "rsv-1", "dc1", reserved/2, 0))(t)
			must(reserves(brokers[0], "rsv-2", "", reserved/2, 0))(t)
			var mu sync.Mutex
			var work sync.WaitGroup
			won := map[bool]int{}
			others := slices.DeleteFunc(slices.Clone(projects), func(id string) bool { return id == "p-2" })
			for i := range askers {
				work.Go(func() {
					a, err := asksAs(brokers[i%len(brokers)], others[i%len(others)], fmt.Sprint("a-", i), "", 1+i%2)
					mu.Lock()
					defer mu.Unlock()
					if won[false] += len(a.NodeIDs); err != nil && broker.AsError(err).Code != "sku_unavailable" {
						t.Errorf("asker %d: %v", i, err)
					}
				})
			}
			work.Wait()
			if won[false] != nodes-reserved {
				t.Errorf("the other projects got %d nodes, want the %d that are not reserved", won[false], nodes-reserved)
			}
			for i := range reserved + 1 {
				work.Go(func() {
					a, err := asksAs(brokers[i%len(brokers)], "p-2", fmt.Sprint("b-", i), "", 1)
					mu.Lock()
					defer mu.Unlock()
					if won[true] += len(a.NodeIDs); err != nil && broker.AsError(err).Code != "sku_unavailable" {
						t.Errorf("asker %d: %v", i, err)
					}
				})
				work.Go(func() {
					if _, err := asksAs(brokers[i%len(brokers)], others[i%len(others)], fmt.Sprint("c-", i), "", 1); broker.AsError(err).Code != "sku_unavailable" {
						t.Errorf("another project got a reserved node: %v", err)
					}
				})
			}
			work.Wait()
			if won[true] != reserved {
				t.Errorf("the project got %d nodes, want the %d that it has reserved", won[true], reserved)
			}
		})
	}
}

// A request that names no site uses the project's own reservations at sites first, and leaves other sites to others.
func TestAProjectUsesItsReservedSitesFirst(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		newSite(t, db, "dc2")
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 2)
		stock(t, db, "h100", "dc2", 3)
		must(reserves(db, "rsv-1", "dc2", 2, 0))(t)
		for i, want := range []struct{ project, site string }{{"p-1", "dc1"}, {"p-2", "dc2"}, {"p-2", "dc2"}, {"p-2", "dc1"}, {"p-1", "dc2"}} {
			if a := must(asksAs(db, want.project, fmt.Sprint("a-", i), "", 1))(t); a.Site != want.site {
				t.Errorf("request %d, of %s, got a node of %s, want %s", i, want.project, a.Site, want.site)
			}
		}
	})
}

// Many askers reserve at once, at several brokers where there may be several: the reservations are never of more
// nodes than there are, and as many win as fit. Another period leaves its nodes alone.
func TestReservationsMadeAtOnceAreNeverOfMoreNodesThanThereAre(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			const nodes, askers = 6, 30
			url := storetest.URL(t, engine)
			brokers := []*store.DB{storetest.Reopen(t, url, nil), storetest.Reopen(t, url, nil), storetest.Reopen(t, url, nil)}
			newSite(t, brokers[0], "dc1")
			offered(t, brokers[0], "h100")
			stock(t, brokers[0], "h100", "dc1", nodes)
			start := brokers[0].Now().Add(time.Hour)
			var mu sync.Mutex
			won := map[time.Time]int{}
			var work sync.WaitGroup
			for i := range askers {
				from := start.Add(time.Duration(i%3/2) * 24 * time.Hour) // two periods that touch
				work.Go(func() {
					r, err := brokers[i/2%len(brokers)].CreateReservation(ctx, admin, broker.Reservation{
						ID: fmt.Sprintf("rsv-%03d", i), ProjectID: projects[i%len(projects)], SKU: "h100", Site: []string{"", "dc1"}[i%2], Nodes: 1,
						From: from, To: from.Add(24 * time.Hour),
					}, "test")
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						won[r.From] += r.Nodes
					} else if broker.AsError(err).Code != "reservation_overbooked" {
						t.Errorf("asker %d: %v", i, err)
					}
				})
			}
			work.Wait()
			if len(won) != 2 || won[start] != nodes || won[start.Add(24*time.Hour)] != nodes {
				t.Errorf("reserved are %v, want %d in each of two periods", won, nodes)
			}
			if kept, _, err := brokers[0].Reservations(ctx, store.ReservationFilter{}); err != nil || len(kept) != 2*nodes {
				t.Errorf("%d reservations are kept, %v", len(kept), err)
			}
		})
	}
}
