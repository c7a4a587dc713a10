package records

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// Only the SKU says whether a DPU may present disks to a machine: without a SKU, or with a
// deleted SKU, the answer is no.
func TestTheSKUSaysWhetherADPUShowsDisks(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		ctx, ada := t.Context(), broker.Actor{Name: "ada"}
		for id, dpu := range map[string]bool{"with": true, "without": false} {
			s := broker.NewSKU()
			s.ID, s.DPUDisks = id, dpu
			if _, err := db.CreateSKU(ctx, ada, s); err != nil {
				t.Fatal(err)
			}
		}
		for sku, want := range map[string]bool{"with": true, "without": false, "": false, "none": false} {
			n, err := db.CreateNode(ctx, ada, store.NewNode{ID: "n-" + sku, Hostname: "h-" + sku, SKU: sku, TokenHash: "h-" + sku, TokenExpires: db.Now().Add(time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			p, err := (&Nodes{DB: db}).Parts(ctx, n.ID)
			if err != nil || p.DPUDisks != want || !p.NoFacts {
				t.Errorf("SKU %q: %v, %v", sku, p.DPUDisks, err)
			}
		}
	})
}
