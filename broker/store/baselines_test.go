package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A person's acceptance of a baseline is stored once. A baseline set by the broker itself is
// nobody's acceptance.
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

// An old baseline that no node has is deleted. A node's present baseline stays, whatever its age.
func TestABaselineThatNoNodeHasGoes(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		one, two := newMember(t, db, "one"), newMember(t, db, "two")
		take := func(node broker.Node, digest string) {
			t.Helper()
			clock.Advance(time.Hour)
			ok(t, db.SaveBaseline(ctx, admin, node.ID, digest, []byte("{}"), "test"))
		}
		take(one, "sha256:a")
		take(two, "sha256:b")
		take(one, "sha256:c")
		take(one, "sha256:d")
		take(one, "sha256:e")
		take(one, "sha256:a") // again
		take(one, "sha256:f")
		left := func() string {
			t.Helper()
			return strings.Join(must(store.Left(ctx, db, "baselines", "digest"))(t), " ")
		}
		before := clock.Now().Add(-90 * time.Minute) // after e, and before a was taken again
		for _, round := range []struct {
			dropped int64
			left    string
		}{{2, "sha256:a sha256:b sha256:e sha256:f"}, {1, "sha256:a sha256:b sha256:f"}, {0, "sha256:a sha256:b sha256:f"}} {
			if n := must(db.DropBaselines(ctx, before, 2))(t); n != round.dropped || left() != round.left {
				t.Fatalf("%d went and %s are left, want %d and %s", n, left(), round.dropped, round.left)
			}
		}
		if n := audited(t, db, "baseline.dropped", ""); n != 2 {
			t.Errorf("%d rows in the audit log", n)
		}
		if n := must(db.DropBaselines(ctx, clock.Now().Add(time.Hour), 10))(t); n != 1 || left() != "sha256:b sha256:f" {
			t.Errorf("%d went and %s are left", n, left())
		}
	})
}
