package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// withImage asks for nodes of h100 with an image.
func withImage(db *store.DB, project, id, image string, nodes int) (broker.Allocation, error) {
	return db.CreateAllocation(ctx, admin, store.NewAllocation{
		ID: id, ProjectID: project, AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: nodes, Image: image}, KeyIDs: []string{"k-1"},
	})
}

// offersImages makes h100, with two images.
func offersImages(t testing.TB, db *store.DB) {
	t.Helper()
	s := broker.NewSKU()
	s.ID, s.Offer.Images = "h100", []string{"noble", "custom/rocm"}
	offers(t, db, s)
}

// An image is asked for by one of the SKU's names. All nodes have it, or none is given. What a node runs
// on is not known if its agent enrolled again.
func TestAnAllocationGetsNodesWithItsImage(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offersImages(t, db)
		nodes := stock(t, db, "h100", "dc1", 5)
		for i, image := range []string{"", "ubuntu/noble", "custom/rocm", "ubuntu/noble", "ubuntu/noble"} {
			if image != "" {
				ok(t, db.RecordImage(ctx, admin, nodes[i].ID, nodes[i].Epoch, broker.NodeImage{Name: image, RunID: "r-1"}))
			}
		}
		ok(t, db.IssueToken(ctx, admin, nodes[4].ID, "again", clock.Now().Add(time.Hour), "by hand"))
		enroll(t, db, "again", "key-again")
		storetest.OweTurnover(t, db, nodes[3].ID, true)

		_, err := withImage(db, "p-1", "a-0", "ubuntu/noble", 1) // the SKU calls it noble
		refused(t, err, "sku_unavailable")
		_, err = withImage(db, "p-1", "a-0", "noble", 2) // one of three owes a turnover, and one enrolled again
		refused(t, err, "sku_unavailable")
		storetest.OweTurnover(t, db, nodes[3].ID, false)
		a := must(withImage(db, "p-1", "a-1", "noble", 2))(t)
		if want := []string{nodes[1].ID, nodes[3].ID}; !slices.Equal(a.NodeIDs, want) || a.Image != "noble" {
			t.Errorf("%v with %q, want %v", a.NodeIDs, a.Image, want)
		}
		judged := must(db.JudgedNodes(ctx, "h100", nil))(t)
		for i, want := range []string{"", "ubuntu/noble", "custom/rocm", "ubuntu/noble", ""} {
			if judged[i].Image != want {
				t.Errorf("node %s has %q, want %q", judged[i].ID, judged[i].Image, want)
			}
		}
		if a := must(withImage(db, "p-1", "a-2", "", 1))(t); a.NodeIDs[0] != nodes[0].ID {
			t.Errorf("whatever the nodes have: %v", a.NodeIDs)
		}
	})
}

// Nodes with the image are no more free than others: what is reserved for a project is left to it.
func TestAnImageTakesNoReservedNode(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		newSite(t, db, "dc1")
		offersImages(t, db)
		for i, n := range stock(t, db, "h100", "dc1", 3) {
			if i > 0 {
				ok(t, db.RecordImage(ctx, admin, n.ID, n.Epoch, broker.NodeImage{Name: "custom/rocm", RunID: "r-1"}))
			}
		}
		must(reserves(db, "rsv-1", "dc1", 2, 0))(t)
		heard(t, db)
		_, err := withImage(db, "p-1", "a-0", "custom/rocm", 2)
		refused(t, err, "sku_unavailable")
		must(withImage(db, "p-1", "a-1", "custom/rocm", 1))(t) // two others are left
	})
}
