package server

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/taskqueue"
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
// postgres-3 are three brokers on one PostgreSQL, in this process. Each connection of a node goes to
// the next of them, and so does each task: two of three are enqueued at a broker at which the
// node does not wait, and are told of by the database.
//
// broker-µs/task is the processor time of the brokers' process, with that of
// who enqueues and awaits. -short has a hundred nodes.
func BenchmarkEnqueueToResult(b *testing.B) {
	agents := 1000
	if testing.Short() {
		agents = 100
	}
	for _, of := range []struct {
		name, engine string
		replicas     int
	}{{"sqlite", "sqlite", 1}, {"postgres", "postgres", 1}, {"postgres-3", "postgres", 3}} {
		b.Run(of.name, func(b *testing.B) {
			s := newBenchBroker(b, of.engine, of.replicas)
			nodes, stop := s.fleet(b, agents)
			defer stop()
			for _, flight := range []int{1, 32} {
				b.Run(fmt.Sprintf("agents=%d/flight=%d", agents, flight), func(b *testing.B) { s.inFlight(b, nodes, flight) })
			}
			b.Run(fmt.Sprintf("agents=%d/s=500", agents), func(b *testing.B) { s.atRate(b, nodes, 500) })
		})
	}
}

// one gives a node the n-th task and reads its result.
func (s benchBroker) one(b *testing.B, n int, id string) {
	at := s[n%len(s)].queue
	k, _, err := at.Enqueue(b.Context(), bencher, taskqueue.Request{NodeID: id, Type: "node.heartbeat_check"})
	if err == nil {
		k, err = at.AwaitEnd(b.Context(), k.ID, 30*time.Second)
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
					task := int(next.Add(1) - 1)
					if task >= b.N || b.Failed() {
						return
					}
					begun := time.Now()
					s.one(b, task, nodes[task%len(nodes)])
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
				s.one(b, i, nodes[i%len(nodes)])
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
