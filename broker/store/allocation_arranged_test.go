package store_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// arranges requests nodes of h100 that stand to each other in some way.
func arranges(db *store.DB, id string, nodes int, a broker.Arrangement) (broker.Allocation, error) {
	return db.CreateAllocation(ctx, admin, store.NewAllocation{
		ID: id, ProjectID: "p-1", AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: nodes, Arrangement: a},
	})
}

// racked puts nodes into racks, by their order.
func racked(t testing.TB, db *store.DB, nodes []broker.Node, racks ...string) {
	t.Helper()
	changes := map[string]broker.NodePlaceChange{}
	for i := range racks {
		changes[nodes[i].ID] = broker.NodePlaceChange{Rack: &racks[i]}
	}
	must(db.ChangePlaces(ctx, admin, changes))(t)
}

func TestNodesAreSpreadAndPackedByTheirPlaces(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		offered(t, db, "h100")
		nodes := stock(t, db, "h100", "dc1", 8)
		racked(t, db, nodes, "", "a", "a", "a", "b", "b", "c", "a")
		stock(t, db, "h100", "dc2", 1) // not enough: the nodes of an allocation are at one site
		storetest.OweTurnover(t, db, nodes[6].ID, true)
		for i, c := range []struct {
			nodes int
			a     broker.Arrangement
			want  []int
		}{
			{3, broker.Arrangement{}, []int{0, 1, 2}},
			{2, broker.Arrangement{Spread: "rack"}, []int{1, 4}}, // c's node is not free
			{4, broker.Arrangement{Spread: "rack"}, []int{1, 2, 4, 5}},
			{7, broker.Arrangement{Spread: "rack"}, []int{0, 1, 2, 3, 4, 5, 7}},
			{2, broker.Arrangement{Pack: "rack"}, []int{4, 5}},
			{3, broker.Arrangement{Pack: "rack"}, []int{1, 2, 3}},
			{2, broker.Arrangement{Spread: "zone"}, []int{0, 1}}, // nothing is known of zones
		} {
			got := must(arranges(db, fmt.Sprint("a-", i), c.nodes, c.a))(t)
			var want []string
			for _, i := range c.want {
				want = append(want, nodes[i].ID)
			}
			if ids := slices.Sorted(slices.Values(got.NodeIDs)); !slices.Equal(ids, want) {
				t.Errorf("%d by %+v are %v, want %v", c.nodes, c.a, ids, want)
			}
			walk(t, db, got, waysTo[broker.AllocationFailed]...) // gives the nodes back
		}
		_, err := arranges(db, "a-x", 8, broker.Arrangement{Spread: "rack"})
		refused(t, err, "sku_unavailable")
		_, err = arranges(db, "a-x", 2, broker.Arrangement{Spread: "rack", Pack: "rack"})
		refused(t, err, "allocation_invalid")
		_, err = arranges(db, "a-x", 2, broker.Arrangement{Spread: "rack; DROP"})
		refused(t, err, "allocation_invalid")
	})
}

// Where the place of a node lacks a word, its label of that name counts.
func TestNodesAreSpreadAndPackedByTheirLabels(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		offered(t, db, "h100")
		nodes := stock(t, db, "h100", "dc1", 6)
		for i, rack := range []string{"a", "a", "a", "b", "a", "c"} {
			must(db.SetLabels(ctx, admin, nodes[i].ID, map[string]string{"rack": rack}))(t)
		}
		racked(t, db, nodes, "", "", "", "", "c") // a known place goes before the label
		for i, c := range []struct {
			nodes int
			a     broker.Arrangement
			want  []int
		}{
			{2, broker.Arrangement{Spread: "rack"}, []int{0, 3}},
			{3, broker.Arrangement{Spread: "rack"}, []int{0, 3, 4}},
			{2, broker.Arrangement{Pack: "rack"}, []int{4, 5}},
			{2, broker.Arrangement{Spread: "zone"}, []int{0, 1}}, // nothing is known of zones
		} {
			got := must(arranges(db, fmt.Sprint("a-", i), c.nodes, c.a))(t)
			var want []string
			for _, i := range c.want {
				want = append(want, nodes[i].ID)
			}
			if ids := slices.Sorted(slices.Values(got.NodeIDs)); !slices.Equal(ids, want) {
				t.Errorf("%d by %+v are %v, want %v", c.nodes, c.a, ids, want)
			}
			walk(t, db, got, waysTo[broker.AllocationFailed]...) // gives the nodes back
		}
	})
}

// Askers that meet share the nodes: none is claimed twice, and none is refused while there are enough.
func TestArrangedRequestsThatMeetShareTheNodes(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		offered(t, db, "h100")
		nodes := stock(t, db, "h100", "dc1", 12)
		racked(t, db, nodes, "a", "b", "c", "a", "b", "c", "a", "b", "c", "a", "b", "c")
		var wg sync.WaitGroup
		made, errs := make([]broker.Allocation, 8), make([]error, 8)
		for i := range made {
			wg.Go(func() {
				a := broker.Arrangement{Spread: "rack"}
				if i%2 == 1 {
					a = broker.Arrangement{Pack: "rack"}
				}
				made[i], errs[i] = arranges(db, fmt.Sprint("a-", i), 2, a)
			})
		}
		wg.Wait()
		claimed, won := map[string]bool{}, 0
		for i, a := range made {
			if errs[i] != nil {
				refused(t, errs[i], "sku_unavailable")
				continue
			}
			won++
			for _, id := range a.NodeIDs {
				if claimed[id] {
					t.Errorf("node %s is claimed twice", id)
				}
				claimed[id] = true
			}
		}
		if won != 6 || len(claimed) != 12 {
			t.Errorf("%d won %d nodes, want 6 and 12", won, len(claimed))
		}
	})
}
