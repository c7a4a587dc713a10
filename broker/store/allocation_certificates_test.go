package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// An allocation has the certificates of the turnovers that ended it: not those of before, nor of a later
// turnover of the same node. A failed allocation has those of the nodes on which it had a user.
func TestAnAllocationHasTheCertificatesThatEndedIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		offered(t, db, "h100")
		n := stock(t, db, "h100", "dc1", 1)[0]
		ok(t, db.SaveBaseline(ctx, admin, n.ID, "sha256:b", []byte("{}"), "test"))
		is := func(a broker.Allocation, want string) {
			t.Helper()
			var ids []string
			for _, c := range must(db.AllocationCertificates(ctx, a))(t) {
				ids = append(ids, c.ID)
			}
			if got := strings.Join(ids, " "); got != want {
				t.Errorf("allocation %s has the certificates %q, want %q", a.ID, got, want)
			}
		}
		turned := func(run string) {
			t.Helper()
			clock.Advance(time.Minute)
			must(db.BeginTurnover(ctx, admin, turn(n, run), "a-1", "a-2"))(t)
			certified(t, db, n, "c-"+run, run, true)
			must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Retired, By: broker.OwnerTurnover}))(t)
			ok(t, db.EndTurnover(ctx, admin, turn(n, run), "c-"+run))
		}
		certified(t, db, n, "c-before", "r-before", true)
		a := walk(t, db, must(asks(db, "a-1", "h100", 1))(t), toProvisioning)
		ends(t, db, must(letsIn(db, n, a.ID, "p-1", false))(t), done)
		is(a, "")
		a = walk(t, db, a, waysTo[broker.AllocationFailed][1])
		leaves(t, db, n, a.ID)
		turned("r-1")
		is(a, "c-r-1")
		turned("r-2") // of nobody
		is(must(db.Allocation(ctx, "a-1"))(t), "c-r-1")
		is(broker.Allocation{ID: "a-none"}, "")
		is(broker.Allocation{ID: "a-none", CertificateIDs: []string{"c-r-2", "c-r-1", "c-r-2", "c-gone"}}, "c-r-1 c-r-2")
	})
}

// A receipt that was given to a tenant stays the file that it was, and is audited once.
func TestAReceiptStaysTheFirst(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		certified(t, db, n, "c-1", "r-1", true)
		if _, is, err := db.Receipt(ctx, "c-1", "a-1"); is || err != nil {
			t.Errorf("there is a receipt: %v", err)
		}
		first := store.Receipt{CertificateID: "c-1", AllocationID: "a-1", Digest: "sha256:1", IssuedAt: clock.Now(), File: []byte("one")}
		again := store.Receipt{CertificateID: "c-1", AllocationID: "a-1", Digest: "sha256:2", IssuedAt: clock.Now().Add(time.Hour), File: []byte("two")}
		other := store.Receipt{CertificateID: "c-1", AllocationID: "a-2", Digest: "sha256:3", IssuedAt: clock.Now(), File: []byte("three")}
		for _, r := range []store.Receipt{first, again, other} {
			must(db.KeepReceipt(ctx, admin, r))(t)
		}
		if kept := must(db.KeepReceipt(ctx, admin, again))(t); string(kept.File) != "one" || kept.Digest != "sha256:1" || !kept.IssuedAt.Equal(first.IssuedAt) {
			t.Errorf("%+v", kept)
		}
		for _, want := range []store.Receipt{first, other} {
			got, is, err := db.Receipt(ctx, "c-1", want.AllocationID)
			if !is || err != nil || string(got.File) != string(want.File) || got.Digest != want.Digest || got.CertificateID != "c-1" || got.AllocationID != want.AllocationID {
				t.Errorf("%+v, %t, %v, want %+v", got, is, err, want)
			}
		}
		if rows := must(db.ListAudit(ctx, store.AuditFilter{Action: "certificate.receipt", Subject: "certificate/c-1"}))(t); len(rows) != 2 {
			t.Errorf("%d rows", len(rows))
		}
	})
}
