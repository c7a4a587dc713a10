package store_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// BenchmarkPlacement measures one asker's requests for one node each, among 10,000 nodes of which
// half are claimed. Each request is acknowledged only when it is durable. In the second case the
// first thousand of the free nodes are silent; in the third 16 ask at once; in the others a site's
// policy orders the nodes.
func BenchmarkPlacement(b *testing.B) {
	for _, engine := range storetest.Engines {
		b.Run(engine, func(b *testing.B) { benchmarkPlacement(b, engine, "", 1, broker.ByNodeID) })
		b.Run(engine+"/silent", func(b *testing.B) { benchmarkPlacement(b, engine, "n-bench-06000", 1, broker.ByNodeID) })
		b.Run(engine+"/at_once", func(b *testing.B) { benchmarkPlacement(b, engine, "", 16, broker.ByNodeID) })
		for _, order := range []broker.PlacementOrder{broker.NewestCertificate, broker.LeastUsed} {
			b.Run(engine+"/"+string(order), func(b *testing.B) { benchmarkPlacement(b, engine, "", 1, order) })
		}
	}
}

func benchmarkPlacement(b *testing.B, engine, silentBelow string, askers int, order broker.PlacementOrder) {
	const nodes = 10_000
	url := storetest.URL(b, "sqlite")
	if engine == "postgres" {
		url = storetest.DurablePostgresURL(b)
	}
	db := storetest.Reopen(b, url, nil)
	offered(b, db, "h100")
	for i := range 4 {
		orders(b, db, newSite(b, db, fmt.Sprintf("dc%d", i)), order)
	}
	for i := range nodes {
		name := fmt.Sprintf("bench-%05d", i)
		must(db.CreateNode(ctx, admin, store.NewNode{
			ID: "n-" + name, Hostname: name, Site: fmt.Sprintf("dc%d", i%4), SKU: "h100", Bootstrap: "command", TokenHash: "hash-" + name,
			TokenExpires: db.Now().Add(time.Hour),
		}))(b)
	}
	now := fmt.Sprint(db.Now().Add(time.Hour).UnixMicro()) // heard throughout
	ok(b, store.Exec(ctx, db, `UPDATE nodes SET status = 'active', last_contact_at = `+now))
	ok(b, store.Exec(ctx, db, `UPDATE nodes SET claims = CAST(SUBSTR(id, 9) AS INTEGER) % 7, certified_at = CAST(SUBSTR(id, 9) AS INTEGER) % 997`))
	ok(b, store.Exec(ctx, db, `INSERT INTO allocation_claims (allocation_id, node_id, since, ended_at)
		SELECT 'before', id, 1, 0 FROM nodes WHERE id < 'n-bench-05000'`))
	ok(b, store.Exec(ctx, db, `UPDATE nodes SET last_contact_at = 1 WHERE id < '`+silentBelow+`'`))
	times := make([]time.Duration, b.N)
	var next atomic.Int64
	b.ResetTimer()
	var work errgroup.Group
	for range askers {
		work.Go(func() error {
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				start := time.Now()
				if _, err := asks(db, fmt.Sprintf("a-%d", i), "h100", 1); err != nil {
					return err
				}
				times[i] = time.Since(start)
			}
			return nil
		})
	}
	ok(b, work.Wait())
	b.StopTimer()
	slices.Sort(times)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reservations/s")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkPlacementAfterAStricterPolicy measures a request that finds none of 10,000 free nodes fit, because a stricter
// policy accepts none of their certificates: before the leading broker has judged them, as a ratio to afterwards.
func BenchmarkPlacementAfterAStricterPolicy(b *testing.B) {
	for _, engine := range storetest.Engines {
		b.Run(engine, func(b *testing.B) {
			j, clock := &purges{}, storetest.NewClock()
			db := judging(b, storetest.URL(b, engine), clock.Now, j.lacks)
			s := newSite(b, db, "dc0")
			offered(b, db, "h100")
			first := stock(b, db, "h100", "dc0", 1)[0]
			certified(b, db, first, "c-0", "r-0", true)
			for i := range 9_999 {
				name := fmt.Sprintf("bench-%05d", i)
				must(db.CreateNode(ctx, admin, store.NewNode{
					ID: "n-" + name, Hostname: name, Site: "dc0", SKU: "h100", Bootstrap: "command", TokenHash: "hash-" + name,
					TokenExpires: db.Now().Add(time.Hour),
				}))(b)
			}
			ok(b, store.Exec(ctx, db, `UPDATE nodes SET status = 'active', last_contact_at = `+fmt.Sprint(db.Now().Add(time.Minute).UnixMicro())))
			ok(b, store.Exec(ctx, db, `INSERT INTO clean_certificates (id, run_id, node_id, site, mode, node_epoch, allocation_id, meets_policy, shortfalls, digest, issued_at, valid_until, file)
				SELECT 'c-' || n.id, 'r-' || n.id, n.id, 'dc0', mode, node_epoch, allocation_id, meets_policy, shortfalls, digest, issued_at, valid_until, file
				FROM clean_certificates CROSS JOIN nodes n WHERE n.id LIKE 'n-bench-%'`))
			ok(b, grade(db, s.ID, "purge"))
			asked := 0
			ask := func() time.Duration {
				begun := time.Now()
				for range b.N {
					asked++
					_, err := asks(db, fmt.Sprint("a-", asked), "h100", 1)
					refused(b, err, "sku_unavailable")
				}
				return time.Since(begun)
			}
			b.ResetTimer()
			unjudged := ask()
			b.StopTimer()
			read := j.calls.Load()
			must(db.SweepAvailability(ctx))(b)
			b.ReportMetric(float64(unjudged)/float64(ask()), "times-judged")
			b.ReportMetric(float64(read)/float64(b.N), "files/op")
		})
	}
}
