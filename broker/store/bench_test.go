package store_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

// BenchmarkTask measures a task's path through the store: enqueue, claim, result, each acknowledged
// only when durable. SQLite runs with synchronous=FULL, PostgreSQL with fsync.
func BenchmarkTask(b *testing.B) {
	for _, engine := range storetest.Engines {
		for _, nodes := range []int{1, 10, 100} {
			b.Run(fmt.Sprintf("%s/nodes=%d", engine, nodes), func(b *testing.B) { benchmarkTask(b, engine, nodes) })
		}
	}
}

func benchmarkTask(b *testing.B, engine string, nodes int) {
	url := storetest.URL(b, "sqlite")
	if engine == "postgres" {
		url = storetest.DurablePostgresURL(b)
	}
	db := storetest.Reopen(b, url, nil)
	var members []broker.Node
	for i := range nodes {
		members = append(members, newMember(b, db, fmt.Sprintf("bench-%d", i)))
	}
	envelope := make([]byte, 1200)
	evidence := make([]byte, 900)
	var left, number atomic.Int64
	left.Store(int64(b.N))
	times := make([][]time.Duration, nodes)
	b.ResetTimer()
	var work sync.WaitGroup
	for i, n := range members {
		work.Go(func() {
			for left.Add(-1) >= 0 {
				start := time.Now()
				k := broker.Task{
					ID: fmt.Sprintf("t-%016x-%d", start.UnixMicro(), number.Add(1)), NodeID: n.ID, NodeEpoch: n.Epoch, Type: "node.heartbeat_check", Version: 1,
					Class: taskcatalog.ClassProbe, Lane: taskcatalog.LaneConcurrent, Params: []byte(`{}`), Envelope: envelope,
					EnvelopeDigest: "sha256:0123456789012345678901234567890123456789012345678901234567890123", KeyID: "0123456789abcdef",
					Nonce: "0123456789012345678901234567890123456789012", IssuedAt: start, NotAfter: start.Add(10 * time.Minute),
				}
				if _, _, err := db.InsertTask(ctx, admin, k); err != nil {
					b.Error(err)
					return
				}
				got, _, err := db.ClaimTasks(ctx, n.ID, n.Epoch, lanes, 10)
				if err != nil || len(got) != 1 {
					b.Errorf("claimed %d, %v", len(got), err)
					return
				}
				r := succeeded(got[0])
				r.Evidence = evidence
				if _, _, err := db.RecordResult(ctx, r, nil); err != nil {
					b.Error(err)
					return
				}
				times[i] = append(times[i], time.Since(start))
			}
		})
	}
	work.Wait()
	b.StopTimer()
	all := slices.Sorted(slices.Values(slices.Concat(times...)))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
	runtime.KeepAlive(db)
}

// BenchmarkStage measures a stage of a chain: claim and save, each acknowledged only when durable.
// Runs have four stages and belong to a batch.
func BenchmarkStage(b *testing.B) {
	for _, engine := range storetest.Engines {
		for _, workers := range []int{1, 8, 32} {
			b.Run(fmt.Sprintf("%s/workers=%d", engine, workers), func(b *testing.B) { benchmarkStage(b, engine, workers) })
		}
	}
}

func benchmarkStage(b *testing.B, engine string, workers int) {
	url := storetest.URL(b, "sqlite")
	if engine == "postgres" {
		url = storetest.DurablePostgresURL(b)
	}
	db := storetest.Reopen(b, url, nil)
	script := &chaintest.Script{List: "a b c d"}
	e, err := chain.New(db, chaintest.ScriptClasses, chain.Options{Owner: "bench"}, script.Chain())
	ok(b, err)
	var starts []chain.Start
	for range (b.N + 3) / 4 {
		starts = append(starts, chain.Start{Kind: chaintest.ScriptKind, Site: "dc1", State: chaintest.ScriptState{Trail: []string{strings.Repeat("x", 2000)}}})
	}
	_, err = e.StartBatch(ctx, chain.Batch{ID: "b", Kind: chaintest.ScriptKind, Site: "dc1", Parallel: 2 * workers}, starts)
	ok(b, err)
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			for left.Add(-1) >= 0 {
				for {
					worked, err := e.Step(ctx)
					if err != nil {
						b.Error(err)
						return
					}
					if worked {
						break
					}
				}
			}
		})
	}
	work.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "stages/s")
}
