package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A key of a live member of the project, or of its whole organisation, counts, and no other.
func TestAnAllocationTakesTheKeysOfItsProjectAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		must(db.CreateOrganisation(ctx, admin, broker.Organisation{ID: "org-1", Name: "acme"}))(t)
		must(db.CreateOrganisation(ctx, admin, broker.Organisation{ID: "org-2", Name: "evil"}))(t)
		mine := must(db.CreateProject(ctx, admin, broker.Project{ID: "prj-1", OrganisationID: "org-1", Name: "lab"}))(t)
		sister := must(db.CreateProject(ctx, admin, broker.Project{ID: "prj-2", OrganisationID: "org-1", Name: "sister"}))(t)
		key := func(name string, at broker.Place) string {
			must(db.AddMember(ctx, admin, broker.Member{ID: "mem-" + name, Subject: name, Place: at, Role: broker.RoleProjectMember}))(t)
			return must(db.AddSSHKey(ctx, admin, broker.SSHKey{ID: "key-" + name, MemberID: "mem-" + name, Fingerprint: "f-" + name}))(t).ID
		}
		ann, boss := key("ann", mine.Place()), key("boss", broker.Place{OrganisationID: "org-1"})
		sis, eve, old, gone := key("sis", sister.Place()), key("eve", broker.Place{OrganisationID: "org-2"}), key("old", mine.Place()), key("gone", mine.Place())
		must(db.EndSSHKey(ctx, admin, "mem-old", old, "lost"))(t)
		must(db.EndMember(ctx, admin, "mem-gone", "left"))(t)
		keys := func(ids ...string) error {
			_, err := db.AllocationKeys(ctx, broker.Allocation{ID: "a-1", ProjectID: mine.ID, KeyIDs: ids})
			return err
		}
		ok(t, keys(ann, boss))
		for _, foreign := range []string{sis, eve, old, gone, "key-none", ""} {
			refused(t, keys(ann, foreign), "ssh_key_not_found")
		}
	})
}

func TestAnAllocationIsFoundByItsProjectAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 2)
		a := must(asks(db, "a-1", "h100", 2))(t)
		if got := must(db.ProjectAllocation(ctx, "p-1", "a-1"))(t); asJSON(got) != asJSON(a) {
			t.Errorf("found is %s, want %s", asJSON(got), asJSON(a))
		}
		for _, other := range [][2]string{{"p-2", "a-1"}, {"p-1", "a-0"}} {
			_, err := db.ProjectAllocation(ctx, other[0], other[1])
			refused(t, err, "allocation_not_found")
		}
		logins := must(db.AllocationLogins(ctx, []string{"a-1", "a-0"}))(t)
		if got := logins["a-1"]; len(logins) != 1 || len(got) != 2 || got[0].Hostname != "h100-dc1-000" || got[1].Hostname != "h100-dc1-001" || got[0].Address != "" {
			t.Errorf("the tenant logs in at %+v", logins)
		}
		walk(t, db, a, waysTo[broker.AllocationFailed]...)
		if logins := must(db.AllocationLogins(ctx, []string{"a-1"}))(t); len(logins) > 0 {
			t.Errorf("after a failure the tenant logs in at %+v", logins)
		}
	})
}

// Of many requests under one key at the same time, one makes the allocation, and the others get its
// id: also where the quota has room for one alone.
func TestARequestKeyMakesOneAllocation(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		offered(t, db, "h100")
		stock(t, db, "h100", "dc1", 3)
		must(db.SetQuota(ctx, admin, broker.Quota{ProjectID: "p-1", SKU: "h100", Nodes: 1, GPUs: 10}, ""))(t)
		keyed := store.WithRequestKey(ctx, store.RequestKey{Actor: "ada", Key: "k", Digest: "one"})
		ask := func(i int, digest string) (string, error) {
			in := keyed
			if digest != "one" {
				in = store.WithRequestKey(ctx, store.RequestKey{Actor: "ada", Key: "k", Digest: digest})
			}
			a, err := db.CreateAllocation(in, admin, store.NewAllocation{
				ID: fmt.Sprintf("a-%d", i), ProjectID: "p-1", AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: 1},
			})
			if before, repeated := errors.AsType[*store.BegunBefore](err); repeated {
				return before.ID, nil
			}
			return a.ID, err
		}
		ids, all := make([]string, 8), sync.WaitGroup{}
		for i := range ids {
			all.Go(func() { ids[i], _ = ask(i, "one") })
		}
		all.Wait()
		for _, id := range ids {
			if id != ids[0] || id == "" {
				t.Fatalf("the requests made %q", ids)
			}
		}
		_, err := ask(9, "two")
		refused(t, err, "idempotency_conflict")
		if n := audited(t, db, "allocation.create", "quota_exceeded"); n > 0 {
			t.Errorf("%d repeated requests were counted against the quota", n)
		}

		// A refused request uses no key up.
		full := store.WithRequestKey(ctx, store.RequestKey{Actor: "ada", Key: "full", Digest: "one"})
		more := store.NewAllocation{ID: "a-10", ProjectID: "p-1", AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: 1}}
		_, err = db.CreateAllocation(full, admin, more)
		refused(t, err, "quota_exceeded")
		must(db.SetQuota(ctx, admin, broker.Quota{ProjectID: "p-1", SKU: "h100", Nodes: 2, GPUs: 10}, ""))(t)
		must(db.CreateAllocation(full, admin, more))(t)
	})
}
