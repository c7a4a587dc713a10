package taskqueue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// modelTask is the rules' view of a task, as short as possible.
type modelTask struct {
	id        string
	exclusive bool
	status    broker.TaskStatus
	attempt   int
	cancel    bool
	notAfter  time.Time
	lease     time.Time
	alive     time.Time // the lease that progress last renewed
	delivery  wire.Delivery
}

func (m *modelTask) unknownAt() time.Time {
	if m.alive.After(m.notAfter) {
		return m.alive.Add(store.UnknownGrace)
	}
	return m.notAfter.Add(store.UnknownGrace)
}

// life is a node's tasks, the real tasks and their models side by side.
type life struct {
	*world
	n     node
	tasks []*modelTask
}

func (l *life) open() []*modelTask {
	return slices.DeleteFunc(slices.Clone(l.tasks), func(m *modelTask) bool { return m.status.Ended() })
}

func (l *life) busy() bool {
	return slices.ContainsFunc(l.tasks, func(m *modelTask) bool { return m.exclusive && m.status == broker.TaskDispatched })
}

func (l *life) pick(t *rapid.T, of []*modelTask) *modelTask {
	if len(of) == 0 {
		t.Skip("none")
	}
	return rapid.SampledFrom(of).Draw(t, "task")
}

func (l *life) Enqueue(t *rapid.T) {
	exclusive := rapid.Bool().Draw(t, "exclusive")
	typ := "node.heartbeat_check"
	if exclusive {
		typ = "node.drain"
	}
	k := l.enqueue(l.n, typ, "")
	l.tasks = append(l.tasks, &modelTask{id: k.ID, exclusive: exclusive, status: broker.TaskQueued, notAfter: k.NotAfter})
}

func (l *life) Fetch(t *rapid.T) {
	now := l.clock.Now()
	busy := l.busy()
	var want []string
	for _, m := range l.tasks {
		late := m.attempt == 0 && now.After(m.notAfter) || m.attempt > 0 && !now.Before(m.unknownAt())
		if m.status != broker.TaskQueued || m.cancel || late || m.exclusive && busy || len(want) == 8 {
			continue
		}
		busy = busy || m.exclusive
		m.status, m.attempt, m.lease = broker.TaskDispatched, m.attempt+1, now.Add(wire.LeaseTime)
		want = append(want, fmt.Sprintf("%s/%d", m.id, m.attempt))
	}
	var got []string
	for _, d := range l.fetch(l.n) {
		got = append(got, fmt.Sprintf("%s/%d", d.TaskID, d.Attempt))
		for _, m := range l.tasks {
			if m.id == d.TaskID {
				m.delivery = d
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("delivered %v, want %v", got, want)
	}
}

func (l *life) Progress(t *rapid.T) {
	m := l.pick(t, l.tasks)
	attempt := rapid.IntRange(max(m.attempt-1, 0), m.attempt+1).Draw(t, "attempt")
	_, err := l.queue.Progress(ctx, l.n.Peer, m.id, wire.ProgressRequest{Attempt: attempt, StepStatus: "running"})
	taken := m.exclusive && m.status == broker.TaskQueued && l.busy()
	if allowed := !m.status.Ended() && attempt == m.attempt && attempt > 0 && !taken; allowed != (err == nil) {
		t.Fatalf("progress of attempt %d of %d on %s: %v", attempt, m.attempt, m.status, err)
	}
	if err == nil {
		m.status, m.lease = broker.TaskDispatched, l.clock.Now().Add(wire.LeaseTime)
		m.alive = m.lease
	}
}

func (l *life) Report(t *rapid.T) {
	m := l.pick(t, l.tasks)
	outcome := rapid.SampledFrom([]taskcatalog.Outcome{"failed", "refused", "interrupted", "canceled"}).Draw(t, "outcome")
	attempt := rapid.IntRange(0, m.attempt+1).Draw(t, "attempt")
	r, err := l.queue.Result(ctx, l.n.Peer, m.id, wire.ResultRequest{Attempt: attempt, Outcome: outcome})
	switch ended := m.status.Ended(); {
	case ended && (err != nil || !r.Repeat || r.Status != string(m.status)):
		t.Fatalf("a later result: %+v, %v", r, err)
	case !ended && (attempt >= 1 && attempt <= m.attempt) != (err == nil):
		t.Fatalf("attempt %d of %d: %v", attempt, m.attempt, err)
	case !ended && err == nil && outcome == taskcatalog.OutcomeCanceled:
		m.status = broker.TaskCanceled
	case !ended && err == nil:
		m.status = broker.TaskFailed
	}
}

func (l *life) Cancel(t *rapid.T) {
	m := l.pick(t, l.tasks)
	_, err := l.queue.Cancel(ctx, operator, m.id, "")
	l.ok(err)
	if m.status.Ended() {
		return
	}
	m.cancel = true
	if m.attempt == 0 {
		m.status = broker.TaskCanceled
	}
}

func (l *life) TimePasses(t *rapid.T) {
	l.clock.Advance(time.Duration(rapid.SampledFrom([]int{1, 15, 59, 60, 61, 300, 600, 3600}).Draw(t, "seconds")) * time.Second)
	l.sweep()
	now := l.clock.Now()
	for _, m := range l.open() {
		switch {
		case m.attempt > 0 && !now.Before(m.unknownAt()):
			m.status = broker.TaskFailed
		case m.attempt == 0 && now.After(m.notAfter):
			m.status = broker.TaskExpired
		case m.status == broker.TaskDispatched && now.After(m.lease):
			m.status = broker.TaskQueued
		}
	}
}

// check compares the tables with the model, and both with the invariants.
func (l *life) check(t *rapid.T) {
	dispatched := 0
	for _, m := range l.tasks {
		k, err := l.db.Task(ctx, m.id)
		l.ok(err)
		if k.Status != m.status || k.Attempt != m.attempt {
			t.Fatalf("task %s is %s at attempt %d, want %s at %d", m.id, k.Status, k.Attempt, m.status, m.attempt)
		}
		if m.exclusive && k.Status == broker.TaskDispatched {
			dispatched++
		}
		if k.Status == broker.TaskExpired && k.Attempt > 0 {
			t.Fatalf("task %s was delivered and expired", m.id)
		}
		if k.Status.Ended() == k.EndedAt.IsZero() {
			t.Fatalf("task %s is %s and ended at %v", m.id, k.Status, k.EndedAt)
		}
	}
	if dispatched > 1 {
		t.Fatalf("%d exclusive tasks are dispatched", dispatched)
	}
}

func TestATaskLivesAsTheModelSays(t *testing.T) {
	clock := storetest.NewClock()
	w := newWorld(t, storetest.Open(t, "sqlite", clock.Now), clock)
	number := 0
	rapid.Check(t, func(rt *rapid.T) {
		number++
		l := &life{world: w, n: w.active(fmt.Sprintf("node-%d", number))}
		rt.Repeat(map[string]func(*rapid.T){
			"enqueue": l.Enqueue, "fetch": l.Fetch, "progress": l.Progress, "report": l.Report, "cancel": l.Cancel, "time": l.TimePasses, "": l.check,
		})
		// End everything, so that the next node's sweeps are its own.
		w.clock.Advance(24 * time.Hour)
		w.sweep()
	})
}
