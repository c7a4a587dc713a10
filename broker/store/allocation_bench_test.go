package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// BenchmarkPlacement measures one asker's requests for one node each, among 10,000 nodes of which
// half are claimed. Each request is acknowledged only when it is durable. In the second case the
// first thousand of the free nodes are silent.
func BenchmarkPlacement(b *testing.B) {
	for _, engine := range storetest.Engines {
		b.Run(engine, func(b *testing.B) { benchmarkPlacement(b, engine, "") })
		b.Run(engine+"/silent", func(b *testing.B) { benchmarkPlacement(b, engine, "n-bench-06000") })
	}
}

func benchmarkPlacement(b *testing.B, engine, silentBelow string) {
	const nodes = 10_000
	url := storetest.URL(b, "sqlite")
	if engine == "postgres" {
		url = storetest.DurablePostgresURL(b)
	}
	db := storetest.Reopen(b, url, nil)
	offered(b, db, "h100")
	for i := range nodes {
		name := fmt.Sprintf("bench-%05d", i)
		must(db.CreateNode(ctx, admin, store.NewNode{
			ID: "n-" + name, Hostname: name, Site: fmt.Sprintf("dc%d", i%4), SKU: "h100", Bootstrap: "command", TokenHash: "hash-" + name,
			TokenExpires: db.Now().Add(time.Hour),
		}))(b)
	}
	now := fmt.Sprint(db.Now().Add(time.Hour).UnixMicro()) // heard throughout
	ok(b, store.Exec(ctx, db, `UPDATE nodes SET status = 'active', last_contact_at = `+now))
	ok(b, store.Exec(ctx, db, `INSERT INTO allocation_claims (allocation_id, node_id, since, ended_at)
		SELECT 'before', id, 1, 0 FROM nodes WHERE id < 'n-bench-05000'`))
	ok(b, store.Exec(ctx, db, `UPDATE nodes SET last_contact_at = 1 WHERE id < '`+silentBelow+`'`))
	var times []time.Duration
	b.ResetTimer()
	for i := range b.N {
		start := time.Now()
		if _, err := asks(db, fmt.Sprintf("a-%d", i), "h100", 1); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(start))
	}
	b.StopTimer()
	slices.Sort(times)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reservations/s")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
}
