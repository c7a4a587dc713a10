package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
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

// inMAAS binds nodes to machines of MAAS.
func inMAAS(t testing.TB, db *store.DB, nodes ...broker.Node) {
	t.Helper()
	for _, n := range nodes {
		ok(t, store.Exec(ctx, db, `UPDATE nodes SET maas_system_id = '`+n.ID[2:]+`' WHERE id = '`+n.ID+`'`))
	}
}

// MAAS installs nothing at a site that is known to be unreachable. Nodes that have the image are given all the same.
func TestAnUnreachableSiteInstallsNoImage(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		newSite(t, db, "dc1")
		newSite(t, db, "dc2")
		offersImages(t, db)
		first, second := stock(t, db, "h100", "dc1", 3), stock(t, db, "h100", "dc2", 1)
		inMAAS(t, db, append(first, second...)...)
		ok(t, db.RecordImage(ctx, admin, first[2].ID, first[2].Epoch, broker.NodeImage{Name: "custom/rocm", RunID: "r-1"}))
		by := chain.Actor{Name: "system"}
		ok(t, db.PlaceHold(ctx, by, chain.SiteHold{Site: "dc1", Kind: chain.Unreachable, Reason: "no answer"}))
		for i, want := range []string{first[2].ID, second[0].ID, ""} {
			a, err := withImage(db, "p-1", fmt.Sprint("a-", i), "custom/rocm", 1)
			if want == "" {
				refused(t, err, "sku_unavailable")
			} else if ok(t, err); a.NodeIDs[0] != want {
				t.Errorf("request %d gets %v, want %s", i, a.NodeIDs, want)
			}
		}
		installs := func(want bool) {
			t.Helper()
			for _, n := range must(db.JudgedNodes(ctx, "h100", []string{"dc1"}))(t) {
				if n.Installable != want {
					t.Errorf("node %s: MAAS can install an image is %v, want %v", n.ID, n.Installable, want)
				}
			}
		}
		installs(false)
		ok(t, db.LiftHold(ctx, by, "dc1", chain.Unreachable, "it answers"))
		installs(true)
		if a := must(withImage(db, "p-1", "a-9", "custom/rocm", 1))(t); a.NodeIDs[0] != first[0].ID {
			t.Errorf("afterwards: %v", a.NodeIDs)
		}
	})
}

// Nodes that have the image come first, at whatever site. Only then come nodes on which MAAS can install it; a
// node that is bound to no machine, or at no site on record, is none.
func TestNodesThatHaveTheImageComeFirst(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		newSite(t, db, "dc1")
		newSite(t, db, "dc2")
		offersImages(t, db)
		first, second, nowhere := stock(t, db, "h100", "dc1", 4), stock(t, db, "h100", "dc2", 3), stock(t, db, "h100", "dc3", 9)
		inMAAS(t, db, first[1], first[2], second[0], second[1])
		inMAAS(t, db, nowhere...)
		ok(t, store.Exec(ctx, db, `UPDATE nodes SET maas_system_id = '' WHERE id IN ('`+first[0].ID+`', '`+first[3].ID+`')`))
		for _, n := range []broker.Node{first[3], second[2]} {
			ok(t, db.RecordImage(ctx, admin, n.ID, n.Epoch, broker.NodeImage{Name: "custom/rocm", RunID: "r-1"}))
		}
		asked := 0
		gets := func(nodes int, want ...broker.Node) {
			t.Helper()
			asked++
			heard(t, db)
			a, err := withImage(db, "p-1", fmt.Sprint("a-", asked), "custom/rocm", nodes)
			if len(want) == 0 {
				refused(t, err, "sku_unavailable")
				return
			}
			ok(t, err)
			var ids []string
			for _, n := range want {
				ids = append(ids, n.ID)
			}
			if !slices.Equal(a.NodeIDs, ids) {
				t.Errorf("%d nodes: %v, want %v", nodes, a.NodeIDs, ids)
			}
		}
		gets(4) // dc1 has three that have it or can get it
		gets(1, first[3])
		gets(1, second[2]) // rather than a reimage at dc1
		ok(t, db.RecordImage(ctx, admin, first[2].ID, first[2].Epoch, broker.NodeImage{Name: "custom/rocm", RunID: "r-1"}))
		gets(2, first[2], first[1]) // the one that has it, and one that gets it
		gets(3)
		gets(2, second[0], second[1])
		gets(1)
		for _, n := range must(db.JudgedNodes(ctx, "h100", []string{"dc1", "dc3"}))(t) {
			if want := n.ID == first[1].ID || n.ID == first[2].ID; n.Installable != want {
				t.Errorf("node %s: MAAS can install an image is %v", n.ID, n.Installable)
			}
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
