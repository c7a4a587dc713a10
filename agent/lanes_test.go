package agent

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/agenttest"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/taskcatalog"
)

func TestOneExclusiveTaskAtATimeAndOthersBesideIt(t *testing.T) {
	inBubble(t, func(l *lab) {
		var mu sync.Mutex
		now, most := map[string]int{}, map[string]int{}
		count := func(lane string, work time.Duration, result any) tasks.Handler {
			return do(func(ctx context.Context, _ *host.Run) (any, taskcatalog.Report, error) {
				mu.Lock()
				now[lane]++
				most[lane] = max(most[lane], now[lane])
				most["both"] = max(most["both"], min(now["exclusive"], 1)+min(now["concurrent"], 1))
				mu.Unlock()
				time.Sleep(work)
				mu.Lock()
				now[lane]--
				mu.Unlock()
				return result, taskcatalog.Report{}, nil
			})
		}
		l.handle("node.drain@1", count("exclusive", 3*time.Minute, &taskcatalog.DrainResult{}))
		l.handle("node.heartbeat_check@1", count("concurrent", 20*time.Second, &taskcatalog.HeartbeatCheckResult{}))
		p := l.start()
		id := l.nodeID(p)
		var all []*agenttest.Task
		for range 3 {
			all = append(all, l.broker.Enqueue(id, "node.drain", `{}`))
		}
		for range 12 {
			all = append(all, l.broker.Enqueue(id, "node.heartbeat_check", `{}`))
		}
		for _, q := range all {
			wantResult(t, l.broker.Wait(q, time.Hour), taskcatalog.OutcomeSucceeded, "")
			if q.Attempt > 2 { // 2: a delivery was on its way when the agent polled anew
				t.Errorf("%s was delivered %d times", q.ID, q.Attempt)
			}
		}
		if most["exclusive"] != 1 || most["concurrent"] != 4 || most["both"] != 2 {
			t.Fatalf("most at once: %v", most)
		}
	})
}

func TestAnExclusiveTaskIsTakenAsSoonAsTheLaneIsFree(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.handle("node.drain@1", do(func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
			time.Sleep(20 * time.Second)
			return drain(ctx, r)
		}))
		p := l.start()
		first := l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`)
		second := l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`)
		l.broker.Wait(first, time.Minute)
		begun := time.Now()
		l.broker.Wait(second, time.Minute)
		if took := time.Since(begun); took > 22*time.Second {
			t.Fatalf("the second took %s after the first", took)
		}
	})
}

func TestATaskThatWaitedTooLongForItsLaneDoesNotStart(t *testing.T) {
	inBubble(t, func(l *lab) {
		var runs atomic.Int64
		l.handle("node.heartbeat_check@1", do(func(ctx context.Context, _ *host.Run) (any, taskcatalog.Report, error) {
			if runs.Add(1) <= 4 {
				time.Sleep(25 * time.Second)
			}
			return &taskcatalog.HeartbeatCheckResult{}, taskcatalog.Report{}, nil
		}))
		p := l.start()
		id := l.nodeID(p)
		var late *agenttest.Task
		for i := range 5 {
			if i == 4 {
				l.until("the lane is full", func() bool { return runs.Load() == 4 })
			}
			late = l.broker.Enqueue(id, "node.heartbeat_check", `{}`, func(task *taskcatalog.Task) {
				if i == 4 {
					task.NotAfter = task.IssuedAt.Add(10*time.Second - taskcatalog.ClockSkew)
				}
			})
		}
		wantResult(t, l.broker.Wait(late, time.Hour), taskcatalog.OutcomeRefused, taskcatalog.CodeTaskExpired)
	})
}

// A destructive task admitted without a tenant does not run once a tenant has arrived.
func TestADestructiveTaskThatWaitedIsRefusedBesideANewTenant(t *testing.T) {
	inBubble(t, func(l *lab) {
		var runs atomic.Int64
		l.handle("node.storage_cleanup@1", do(func(context.Context, *host.Run) (any, taskcatalog.Report, error) {
			runs.Add(1)
			return &taskcatalog.StorageCleanupResult{}, taskcatalog.Report{}, nil
		}))
		p := l.start(func(p *process) {
			p.at = func(boundary, _ string) {
				if boundary == "after accept" {
					if err := p.ledger.Accounts().Put(host.Account{AllocationID: "a-1", Username: "alice", UID: 70000}); err != nil {
						t.Error(err)
					}
				}
			}
		})
		q := l.broker.Enqueue(l.nodeID(p), "node.storage_cleanup", `{"scope":"local"}`)
		wantResult(t, l.broker.Wait(q, time.Minute), taskcatalog.OutcomeRefused, taskcatalog.CodeAllocationPresent)
		if runs.Load() != 0 {
			t.Error("it ran")
		}
	})
}
