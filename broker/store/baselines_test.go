package store_test

import (
	"testing"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A person's word for a baseline is kept, once; what the broker puts in force itself is
// nobody's word.
func TestWhoAcceptedABaselineIsKept(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		for range 2 { // the answer was lost
			ok(t, db.AcceptBaseline(ctx, admin, n.ID, "sha256:c", []byte("{}"), "another image"))
		}
		ok(t, db.SaveBaseline(ctx, admin, n.ID, "sha256:d", []byte("{}"), "installed anew"))
		said := must(db.AcceptedBaselines(ctx, n.ID))(t)
		if len(said) != 1 || said[0] != (store.AcceptedBaseline{Digest: "sha256:c", By: admin.Name, Reason: "another image", At: said[0].At}) || !said[0].At.Equal(clock.Now()) {
			t.Errorf("%+v", said)
		}
		if got := must(db.Node(ctx, n.ID))(t); got.BaselineDigest != "sha256:d" {
			t.Errorf("in force is %s", got.BaselineDigest)
		}
	})
}
