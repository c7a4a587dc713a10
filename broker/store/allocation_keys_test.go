package store_test

import (
	"fmt"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A tenant is told which of its keys a node refused. What else a node reports is nobody's key.
func TestRefusedKeysAreThoseOfTheAllocation(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 4)
		must(db.AddMember(ctx, admin, broker.Member{ID: "m-1", Subject: "eve", Place: broker.Place{OrganisationID: "org-1"}, Role: broker.RoleProjectMember}))(t)
		for _, id := range []string{"k-1", "k-2"} {
			must(db.AddSSHKey(ctx, admin, broker.SSHKey{ID: id, MemberID: "m-1", Type: "ssh-rsa", PublicKey: "ssh-rsa " + id, Fingerprint: "SHA256:" + id}))(t)
		}
		ask := func(id, project string, keys ...string) broker.Allocation {
			t.Helper()
			return must(db.CreateAllocation(ctx, admin, store.NewAllocation{
				ID: id, ProjectID: project, AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: 1}, KeyIDs: keys,
			}))(t)
		}
		accepted := func(a broker.Allocation, want bool) {
			t.Helper()
			if got := must(db.KeyAcceptedBefore(ctx, a))(t); got != want {
				t.Errorf("a key of allocation %s was accepted before: %v", a.ID, got)
			}
		}
		first := ask("a-1", "p-1", "k-1", "k-2")
		accepted(first, false)
		ok(t, db.NoteLogin(ctx, first.ID, first.NodeIDs[0], "10.0.0.7", "ssh-ed25519 A"))
		ok(t, db.NoteRefusedKeys(ctx, first.ID, first.NodeIDs[0], []string{"SHA256:k-2", "SHA256:of-nobody"}))
		accepted(first, false) // its own login says nothing of others
		got := must(db.RefusedKeys(ctx, []broker.Allocation{first}))(t)
		if fmt.Sprint(got) != "map[a-1:[{k-2 SHA256:k-2}]]" {
			t.Errorf("refused are %v", got)
		}
		accepted(ask("a-2", "p-1", "k-1"), true)
		accepted(ask("a-3", "p-1", "k-2"), false) // it was refused there, too
		elsewhere := ask("a-4", "p-2", "k-1")
		accepted(elsewhere, false) // of another project
		elsewhere.ProjectID, elsewhere.Site = "p-1", "dc2"
		accepted(elsewhere, false)
		if none := must(db.RefusedKeys(ctx, []broker.Allocation{elsewhere}))(t); len(none) > 0 {
			t.Errorf("of another allocation are refused %v", none)
		}
	})
}
