package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/test/fleet"
)

var bencher = broker.Actor{Name: "bench", Role: broker.RoleOperator}

// BenchmarkEnqueueToResult is a task's whole way through a whole broker: from
// the call that enqueues it, over a long poll on mutual TLS to a node and back
// with its signed evidence, until whoever asked reads the result that was
// stored. SQLite runs with synchronous=FULL and PostgreSQL with fsync. The nodes
// live in another process (test/fleet), and so does PostgreSQL; all share
// the processors.
//
//   - flight=F: F tasks are on the way at a time, each to another of the nodes, which are idle
//     but for them; the next follows the end of one. One is the time of a task by itself, 32
//     is what the broker can do.
//   - s=R: R tasks come in a second, whether or not the ones before have ended; the time of
//     each runs from when it was due.
//
// broker-µs/task is the processor time of the broker's process, with that of
// who enqueues and awaits.
func BenchmarkEnqueueToResult(b *testing.B) {
	for _, engine := range storetest.Engines {
		b.Run(engine, func(b *testing.B) {
			s := newBenchBroker(b, engine)
			nodes, stop := s.fleet(b, 1000)
			defer stop()
			for _, flight := range []int{1, 32} {
				b.Run(fmt.Sprintf("agents=1000/flight=%d", flight), func(b *testing.B) { s.inFlight(b, nodes, flight) })
			}
			b.Run("agents=1000/s=500", func(b *testing.B) { s.atRate(b, nodes, 500) })
		})
	}
}

// benchBroker is a whole broker that runs.
type benchBroker struct{ *Server }

func newBenchBroker(b *testing.B, engine string) benchBroker {
	b.Helper()
	c := Config{DataDir: filepath.Join(b.TempDir(), "broker"), Listen: "127.0.0.1:0", AgentListen: "127.0.0.1:0", Version: "bench"}
	if engine == "postgres" {
		c.Database = storetest.DurablePostgresURL(b)
		dir, err := OpenDataDir(c.DataDir)
		must(b, err)
		must(b, dir.MakeKeys(time.Now(), ""))
		must(b, dir.Close())
	}
	c.nodeRate = rate.Inf
	s, err := New(b.Context(), c)
	must(b, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		must(b, <-ended)
	})
	return benchBroker{s}
}

// fleet starts a process of nodes, which enrol and are in service.
func (s benchBroker) fleet(b *testing.B, agents int) (nodes []string, stop func()) {
	b.Helper()
	p, err := fleet.Start(fleet.Site{Broker: s.AgentURL(), CASHA256: s.RootSHA256()}, "")
	must(b, err)
	var tokens []string
	for range agents {
		token, err := pki.NewEnrollToken(rand.Reader)
		must(b, err)
		id := pki.NewNodeID(rand.Reader)
		_, err = s.db.CreateNode(b.Context(), bencher, store.NewNode{
			ID: id, Hostname: id, Bootstrap: "command", TokenHash: pki.HashToken(token.Reveal()), TokenExpires: time.Now().Add(time.Hour),
		})
		must(b, err)
		tokens, nodes = append(tokens, token.Reveal()), append(nodes, id)
	}
	must(b, p.Join(tokens))
	all := int64(agents)
	must(b, p.Until(b.Context(), "all nodes are in service", func(c fleet.Counts) bool { return c.Ended == all && c.Waiting >= all-all/200 }))
	return nodes, func() { must(b, p.Close()) }
}

// one gives a node a task and reads its result.
func (s benchBroker) one(b *testing.B, id string) {
	k, _, err := s.queue.Enqueue(b.Context(), bencher, taskqueue.Request{NodeID: id, Type: "node.heartbeat_check"})
	if err == nil {
		k, err = s.queue.AwaitEnd(b.Context(), k.ID, 30*time.Second)
	}
	if err != nil || k.Status != broker.TaskSucceeded || len(k.Evidence) == 0 {
		b.Errorf("task %s on %s is %s (%v)", k.ID, id, k.Status, err)
	}
}

// inFlight keeps so many tasks on the way, to one node after the other.
func (s benchBroker) inFlight(b *testing.B, nodes []string, flight int) {
	var next atomic.Int64
	times := make([][]time.Duration, flight)
	var work sync.WaitGroup
	measure(b, func() []time.Duration {
		for i := range flight {
			work.Go(func() {
				for {
					task := next.Add(1) - 1
					if task >= int64(b.N) || b.Failed() {
						return
					}
					begun := time.Now()
					s.one(b, nodes[task%int64(len(nodes))])
					times[i] = append(times[i], time.Since(begun))
				}
			})
		}
		work.Wait()
		return slices.Concat(times...)
	})
}

// atRate gives out tasks at a steady rate, to one node after the other.
func (s benchBroker) atRate(b *testing.B, nodes []string, perSecond int) {
	times := make([]time.Duration, b.N)
	var work sync.WaitGroup
	measure(b, func() []time.Duration {
		begun := time.Now()
		for i := range b.N {
			due := begun.Add(time.Duration(i) * time.Second / time.Duration(perSecond))
			if early := time.Until(due); early > 0 {
				<-time.After(early)
			}
			work.Go(func() {
				s.one(b, nodes[i%len(nodes)])
				times[i] = time.Since(due)
			})
		}
		work.Wait()
		return times
	})
}

// measure reports the times of tasks and what they took together.
func measure(b *testing.B, run func() []time.Duration) {
	b.ResetTimer()
	used := processorTime(b)
	times := run()
	used = processorTime(b) - used
	b.StopTimer()
	slices.Sort(times)
	at := func(percent int) float64 { return float64(times[(len(times)-1)*percent/100].Microseconds()) / 1000 }
	b.ReportMetric(at(50), "p50-ms")
	b.ReportMetric(at(99), "p99-ms")
	b.ReportMetric(float64(len(times))/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(float64(used.Microseconds())/float64(len(times)), "broker-µs/task")
}

// processorTime is what this process has used of the processors.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestMain lets this binary be the nodes.
func TestMain(m *testing.M) {
	fleet.Serve()
	os.Exit(m.Run())
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
