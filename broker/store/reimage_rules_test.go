package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A soft reset counts once it has a certificate, whatever the certificate says and however often it was tried, since
// the node's last reimage with one.
func TestSoftResetsAreCountedSinceTheLastReimage(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n, other := member(t, db, "gpu-1"), member(t, db, "gpu-2")
		certifies := func(of broker.Node, run, id, mode string, meets bool) {
			t.Helper()
			clock.Advance(time.Second)
			must(db.KeepCleanCertificate(ctx, admin, store.CleanCertificate{
				ID: id, RunID: run, NodeID: of.ID, NodeEpoch: of.Epoch, Mode: mode, MeetsPolicy: meets, Digest: "sha256:" + id, IssuedAt: db.Now(), ValidUntil: db.Now().Add(time.Hour), File: []byte("{}"),
			}))(t)
		}
		is := func(when string, want int) {
			t.Helper()
			if got := must(db.SoftResets(ctx, n.ID))(t); got != want {
				t.Errorf("%s: %d soft resets, want %d", when, got, want)
			}
		}
		is("a new node", 0)
		certifies(n, "r-1", "c-1", "soft_reset", true)
		certifies(other, "r-x", "c-x", "soft_reset", true)
		certifies(n, "r-2", "c-2.1", "soft_reset", false)
		certifies(n, "r-2", "c-2.2", "soft_reset", true)
		is("two, one of them with two certificates", 2)
		certifies(n, "r-3", "c-3", "reimage", true)
		is("reimaged", 0)
		certifies(n, "r-4", "c-4", "soft_reset", true)
		is("one since", 1)
	})
}

func TestOrganisationsOfProjects(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		offered(t, db, "h100") // makes org-1 and its projects
		if got := must(db.OrganisationsOf(ctx, []string{"p-1", "p-2", "org-1", "by-hand", ""}))(t); !slices.Equal(got, []string{"org-1"}) {
			t.Errorf("%q", got)
		}
		if got := must(db.OrganisationsOf(ctx, []string{"by-hand"}))(t); len(got) != 0 {
			t.Errorf("%q", got)
		}
	})
}

// A rule that names what is not on record would never apply.
func TestARuleNamesWhatIsOnRecord(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		s := newSite(t, db, "dc1")
		offered(t, db, "h100")
		l40 := broker.NewSKU()
		l40.ID = "l40"
		must(db.CreateSKU(ctx, admin, l40))(t)
		sets := func(change func(*broker.Policy)) error {
			_, err := db.UpdateProfile(ctx, admin, s.ID, "", "r", func(p *broker.Profile) error { change(&p.Policy); return nil })
			return err
		}
		ok(t, sets(func(p *broker.Policy) {
			p.ReimageSKUs, p.ReimageTenants = []string{"h100", "l40"}, []string{"org-1", "p-2"}
		}))
		wantCode(t, sets(func(p *broker.Policy) { p.ReimageSKUs = []string{"h100", "h1000"} }), "profile_invalid")
		wantCode(t, sets(func(p *broker.Policy) { p.ReimageTenants = []string{"p-1000"} }), "profile_invalid")
		ok(t, store.Exec(ctx, db, `DELETE FROM skus WHERE id = 'l40'`))
		ok(t, sets(func(p *broker.Policy) { p.ReimageEvery = 3 })) // what was named before may be gone
		q := broker.NewProfile("p-2", s.ID, "other")
		q.Policy.ReimageSKUs = []string{"l40"} // gone by now
		_, err := db.CreateProfile(ctx, admin, q)
		wantCode(t, err, "profile_invalid")
		if p := must(db.Profile(ctx, s.ID, ""))(t).Policy; p.ReimageEvery != 3 || !slices.Equal(p.ReimageTenants, []string{"org-1", "p-2"}) {
			t.Errorf("%+v", p.ModePolicy)
		}
	})
}

// A tenant's root counts until the node is reimaged, whatever soft resets with certificates came in between.
func TestATenantsRootCountsUntilTheNextReimage(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		certifies := func(id, mode string) {
			t.Helper()
			clock.Advance(time.Second)
			must(db.KeepCleanCertificate(ctx, admin, store.CleanCertificate{
				ID: id, RunID: "r-" + id, NodeID: n.ID, NodeEpoch: n.Epoch, Mode: mode, MeetsPolicy: true, Digest: "sha256:" + id,
				IssuedAt: db.Now(), ValidUntil: db.Now().Add(time.Hour), File: []byte("{}"),
			}))(t)
		}
		is := func(when string, want bool) {
			t.Helper()
			if got := must(db.RootSinceReimage(ctx, n.ID))(t); got != want {
				t.Errorf("%s: root is %v, want %v", when, got, want)
			}
		}
		is("a new node", false)
		ends(t, db, must(letsIn(db, n, "a-1", "acme", false))(t), done)
		leaves(t, db, n, "a-1")
		is("a tenant without root", false)
		certifies("c-1", "soft_reset")
		ends(t, db, must(letsIn(db, n, "a-2", "acme", true))(t), done)
		is("a tenant with root", true)
		leaves(t, db, n, "a-2")
		certifies("c-2", "soft_reset")
		ok(t, store.Exec(ctx, db, `UPDATE allocations SET certified_by = 'c-2' WHERE node_id = $1`, n.ID))
		is("after a soft reset", true)
		certifies("c-3", "reimage")
		is("reimaged", false)
	})
}
