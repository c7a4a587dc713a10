package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
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
	"github.com/hostler/hostler/taskcatalog"
)

var bencher = broker.Actor{Name: "bench", Role: broker.RoleOperator}

// BenchmarkEnqueueToResult is a task's whole way through a whole broker: from
// the call that enqueues it, over a long poll on mutual TLS to a node and back
// with its signed evidence, until whoever asked reads the result that was
// stored. SQLite runs with synchronous=FULL and PostgreSQL with fsync. The nodes
// live in another process (fleet_test.go), and so does PostgreSQL; all share
// the processors.
//
//   - agents=N: each node has one task at a time and gets the next with the
//     result of the one before. tasks/s is what the broker can do; with many
//     agents the times are those of an overloaded broker, as they add up to
//     agents ÷ tasks/s.
//   - agents=N/s=R: R tasks come in a second, whether or not the ones before
//     have ended; the time of each runs from when it was due.
//
// broker-µs/task is the processor time of the broker's process, with that of
// who enqueues and awaits.
func BenchmarkEnqueueToResult(b *testing.B) {
	for _, engine := range storetest.Engines {
		b.Run(engine, func(b *testing.B) {
			s := newBenchBroker(b, engine)
			for _, agents := range []int{1, 10, 100} {
				f := s.fleet(b, agents)
				stop := f.start(b)
				b.Run(fmt.Sprintf("agents=%d", agents), func(b *testing.B) { s.inTurn(b, f.Nodes) })
				if agents == 100 {
					b.Run("agents=100/s=500", func(b *testing.B) { s.atRate(b, f.Nodes, 500) })
				}
				stop()
			}
		})
	}
}

// BenchmarkWaitingAgent is what one of a thousand nodes that wait costs a whole
// broker: resident memory, and Go's own account of heap and stacks. The nodes
// have just come (new), or each has had a task (worked). It is measured once, as
// memory that a first round left behind would flatter a second.
func BenchmarkWaitingAgent(b *testing.B) {
	const agents = 1000
	s := newBenchBroker(b, "sqlite")
	f := s.fleet(b, agents)
	before := memory(b)
	stop := f.start(b)
	defer stop()
	report := func(name string) {
		s.awaitPolls(b, agents)
		now := memory(b)
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(now.resident-before.resident)/agents/1000, "rss-kB/agent")
			b.ReportMetric(float64(now.inUse-before.inUse)/agents/1000, "go-kB/agent")
		})
	}
	report("new")
	for _, n := range f.Nodes {
		s.one(b, n)
	}
	report("worked")
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

// fleet makes nodes that are in service. They are enrolled in the store itself:
// one address may not enrol a thousand at once.
func (s benchBroker) fleet(b *testing.B, agents int) fleet {
	b.Helper()
	_, bundle := s.trust.Bundle()
	f := fleet{Address: strings.TrimPrefix(s.at.agents, "https://"), Bundle: string(bundle)}
	for range agents {
		token, err := pki.NewEnrollToken(rand.Reader)
		must(b, err)
		id := pki.NewNodeID(rand.Reader)
		_, err = s.db.CreateNode(b.Context(), bencher, store.NewNode{
			ID: id, Hostname: id, Bootstrap: "command", TokenHash: pki.HashToken(token.Reveal()), TokenExpires: time.Now().Add(time.Hour),
		})
		must(b, err)
		key, err := pki.GenerateKey(pki.Ed25519)
		must(b, err)
		digest, err := pki.PublicKeyDigest(key.Public())
		must(b, err)
		raw, err := pki.NewCSR(key)
		must(b, err)
		csr, err := pki.ParseCSR(raw)
		must(b, err)
		enrolled, err := s.db.Enroll(b.Context(), store.EnrollInput{
			TokenHash: pki.HashToken(token.Reveal()), PublicKeyDigest: digest, TrustVersion: s.trust.Version(),
			Report: store.NodeReport{AgentVersion: "1.0.0", TaskTypes: taskcatalog.IDs(), Digest: "bench"},
			Issue: func(n broker.Node, epoch int64) (store.IssuedCert, error) {
				leaf, chain, err := s.trust.IssueNode(csr, pki.NodeIdentity{NodeID: n.ID, Epoch: epoch}, time.Now(), time.Hour)
				if err != nil {
					return store.IssuedCert{}, err
				}
				return store.IssuedCert{
					Serial: pki.Serial(leaf), PEM: string(pki.MarshalCerts(chain...)), PublicKey: leaf.RawSubjectPublicKeyInfo,
					NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
				}, nil
			},
		})
		must(b, err)
		_, err = s.db.Transition(b.Context(), bencher, id, store.Change{To: broker.Active, By: broker.OwnerOnboarding})
		must(b, err)
		secret, err := pki.MarshalKey(key)
		must(b, err)
		f.Nodes = append(f.Nodes, fleetNode{ID: id, Epoch: enrolled.Node.Epoch, Chain: enrolled.Cert.PEM, Key: string(secret)})
	}
	return f
}

// one gives a node a task and reads its result.
func (s benchBroker) one(b *testing.B, n fleetNode) {
	k, _, err := s.queue.Enqueue(b.Context(), bencher, taskqueue.Request{NodeID: n.ID, Type: "node.heartbeat_check"})
	if err == nil {
		k, err = s.queue.AwaitEnd(b.Context(), k.ID, 30*time.Second)
	}
	if err != nil || k.Status != broker.TaskSucceeded || len(k.Evidence) == 0 {
		b.Errorf("task %s on %s is %s (%v)", k.ID, n.ID, k.Status, err)
	}
}

// inTurn keeps one task on the way for each node.
func (s benchBroker) inTurn(b *testing.B, nodes []fleetNode) {
	s.awaitPolls(b, len(nodes))
	var left atomic.Int64
	left.Store(int64(b.N))
	times := make([][]time.Duration, len(nodes))
	var work sync.WaitGroup
	measure(b, func() []time.Duration {
		for i, n := range nodes {
			work.Go(func() {
				for left.Add(-1) >= 0 && !b.Failed() {
					begun := time.Now()
					s.one(b, n)
					times[i] = append(times[i], time.Since(begun))
				}
			})
		}
		work.Wait()
		return slices.Concat(times...)
	})
}

// atRate gives out tasks at a steady rate, to one node after the other.
func (s benchBroker) atRate(b *testing.B, nodes []fleetNode, perSecond int) {
	s.awaitPolls(b, len(nodes))
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

// awaitPolls waits until so many polls wait.
func (s benchBroker) awaitPolls(b *testing.B, polls int) {
	b.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for s.nodes.WaitingPolls() != polls {
		select {
		case <-tick.C:
		case <-deadline:
			b.Fatalf("after a minute %d polls wait, want %d", s.nodes.WaitingPolls(), polls)
		}
	}
}

// footprint is memory in bytes.
type footprint struct{ resident, inUse int64 }

// memory returns the resident set of this process, and what Go has in use of
// heap and stacks, after what is garbage has gone.
func memory(b *testing.B) footprint {
	b.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	statm, err := os.ReadFile("/proc/self/statm")
	must(b, err)
	pages, err := strconv.ParseInt(strings.Fields(string(statm))[1], 10, 64)
	must(b, err)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{resident: pages * int64(os.Getpagesize()), inUse: int64(m.HeapInuse + m.StackInuse)}
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
