package store_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestFactsAreThoseReportedLast(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "h1")
		if _, _, err := db.Facts(ctx, n.ID); broker.AsError(err).Code != "facts_unknown" {
			t.Fatalf("a node that never looked: %v", err)
		}
		report := func(digest string, f *taskcatalog.Facts) {
			t.Helper()
			if err := store.SaveReport(ctx, db, n.ID, store.NodeReport{AgentVersion: "1.0", Facts: f, Digest: digest}); err != nil {
				t.Fatal(err)
			}
		}
		report("d2", &taskcatalog.Facts{GPUs: []taskcatalog.GPUFacts{{UUID: "GPU-1"}}})
		clock.Advance(time.Hour)
		report("d3", &taskcatalog.Facts{GPUs: []taskcatalog.GPUFacts{{UUID: "GPU-2"}}})
		want := db.Now()
		clock.Advance(time.Hour)
		report("d4", nil) // an agent that could not look

		f, at, err := db.Facts(ctx, n.ID)
		if err != nil || len(f.GPUs) != 1 || f.GPUs[0].UUID != "GPU-2" || !at.Equal(want.Truncate(time.Microsecond)) {
			t.Errorf("%+v at %s, %v; want GPU-2 at %s", f, at, err, want)
		}
	})
}
