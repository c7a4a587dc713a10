package hall

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/test/fleet"
)

func TestMain(m *testing.M) {
	fleet.Serve()
	os.Exit(m.Run())
}

// BenchmarkConnectedAgents measures the cost of idle waiting nodes for the broker: the built broker
// (make build) on SQLite, and the nodes in another process.
//
//   - restart-s: time from the broker's kill until every node waits at the new broker, which starts
//     at once. One node in two hundred may be between two polls. Tasks are under way meanwhile, and
//     each must succeed.
//   - rss-kB/agent: resident memory of the new process at the end, beyond its memory without nodes,
//     including garbage not yet collected. Not reported for a hundred nodes.
//   - core-%: processor time while the nodes are idle, over two polls of each, in percent of a core.
//   - statements/s: the database's statements in that time.
//
// -short leaves out the ten thousand.
func BenchmarkConnectedAgents(b *testing.B) {
	sizes := []int{100, 1000, 10000}
	if testing.Short() {
		sizes = sizes[:2]
	}
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Minute)
	defer cancel()
	h, err := New(ctx, "../../../bin", sizes[len(sizes)-1], fleet.Script{}, "")
	must(b, err)
	defer func() { must(b, h.Close()) }()
	empty := h.idles(ctx, b, 0)
	for _, size := range sizes {
		must(b, h.Grow(ctx, size))
		took := h.restart(ctx, b, size)
		idle := h.idles(ctx, b, size)
		b.Run(fmt.Sprintf("agents=%d", size), func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(took.Seconds(), "restart-s")
			if size >= 1000 { // the process by itself varies by more than a hundred nodes have
				b.ReportMetric(float64(idle.Resident-empty.Resident)/float64(size)/1000, "rss-kB/agent")
			}
			b.ReportMetric(100*idle.Processor.Seconds()/idleFor.Seconds(), "core-%")
			b.ReportMetric(idle.statements, "statements/s")
		})
	}
}

const (
	settleFor = 30 * time.Second
	// idleFor is two polls long: nodes that polled together after the restart poll together again.
	idleFor = 100 * time.Second
	tasks   = 40 // under way while the broker restarts
)

type idling struct {
	Usage              // Processor: in the measured time
	statements float64 // a second
}

// idles measures the broker while nothing happens, after earlier work has ended.
func (h *Hall) idles(ctx context.Context, b *testing.B, nodes int) idling {
	b.Helper()
	wait(ctx, b, settleFor)
	h.allWait(ctx, b, nodes) // nodes that polled together after a restart may be polling again
	before, asked := h.usage(b), h.statements(ctx, b)
	wait(ctx, b, idleFor)
	after := h.usage(b)
	return idling{
		Usage:      Usage{Resident: after.Resident, Processor: after.Processor - before.Processor},
		statements: (h.statements(ctx, b) - asked) / idleFor.Seconds(),
	}
}

func (h *Hall) usage(b *testing.B) Usage {
	b.Helper()
	u, err := h.Usage()
	must(b, err)
	return u
}

func (h *Hall) statements(ctx context.Context, b *testing.B) float64 {
	b.Helper()
	n, err := h.Metric(ctx, "hostler_store_statements_total")
	must(b, err)
	return n
}

// restart kills the broker during tasks, starts it again, and returns the time until all nodes wait
// again. Each task must succeed.
func (h *Hall) restart(ctx context.Context, b *testing.B, nodes int) time.Duration {
	b.Helper()
	had := h.Counts()
	must(b, h.Play(fleet.Script{Takes: 2 * time.Second}))
	defer func() { must(b, h.Play(fleet.Script{})) }()
	var begun []string
	for i := range tasks {
		k, err := h.Operator.Enqueue(ctx, h.Nodes[i*nodes/tasks], api.TaskCreate{Type: "node.heartbeat_check"})
		must(b, err)
		begun = append(begun, k.ID)
	}
	must(b, h.Until(ctx, "the tasks are under way", func(c fleet.Counts) bool { return c.Accepted >= had.Accepted+tasks }))
	must(b, h.KillBroker())
	died := time.Now()
	must(b, h.StartBroker(ctx))
	must(b, h.Until(ctx, "all nodes wait again", func(c fleet.Counts) bool { return c.Waiting >= Nearly(int64(nodes)) }))
	h.allWait(ctx, b, nodes)
	took := time.Since(died)
	must(b, h.Until(ctx, "the tasks have ended", func(c fleet.Counts) bool { return c.Ended+c.Unwelcome >= had.Ended+tasks }))
	for _, id := range begun {
		k, err := h.Operator.Task(ctx, id)
		if must(b, err); k.Status != "succeeded" {
			b.Errorf("task %s, which the restart was in the middle of, is %s %s", id, k.Status, k.Code)
		}
	}
	return took
}

// allWait returns when the broker reports nearly all nodes as waiting.
func (h *Hall) allWait(ctx context.Context, b *testing.B, nodes int) {
	b.Helper()
	must(b, h.Lab.Wait(ctx, "the broker has all polls", func() error {
		n, err := h.Metric(ctx, "hostler_waiting_polls")
		if err == nil && int64(n) < Nearly(int64(nodes)) {
			err = fmt.Errorf("it has %v", n)
		}
		return err
	}))
}

func wait(ctx context.Context, b *testing.B, d time.Duration) {
	b.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		b.Fatal(ctx.Err())
	}
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
