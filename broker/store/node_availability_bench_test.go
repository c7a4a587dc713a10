package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// BenchmarkSweepAvailability measures a sweep of 10,000 nodes that changes nothing: each node has a
// certificate, every second node a tenant.
func BenchmarkSweepAvailability(b *testing.B) {
	for _, engine := range storetest.Engines {
		b.Run(engine, func(b *testing.B) {
			clock := storetest.NewClock()
			db := storetest.Open(b, engine, clock.Now)
			heard := map[string]time.Time{}
			for i := range 10000 {
				id := fmt.Sprintf("n-%05d", i)
				must(db.CreateNode(ctx, admin, store.NewNode{ID: id, Hostname: id, Site: "dc1", Bootstrap: "command"}))(b)
				certified(b, db, broker.Node{ID: id}, "c-"+id, "r-"+id, true)
				heard[id] = clock.Now()
			}
			ok(b, db.TouchNodes(ctx, heard))
			ok(b, store.Exec(ctx, db, `UPDATE nodes SET status = 'active'`))
			ok(b, store.Exec(ctx, db, `INSERT INTO allocations (node_id, allocation_id, username, tenant, had_root, task_id, since)
				SELECT id, 'a-' || id, 'u', 't', TRUE, '', 1 FROM nodes WHERE substr(id, 7) IN ('0', '2', '4', '6', '8')`))
			must(db.SweepAvailability(ctx))(b)
			b.ResetTimer()
			for range b.N {
				if changed := must(db.SweepAvailability(ctx))(b); changed != 0 {
					b.Fatal(changed)
				}
			}
		})
	}
}
