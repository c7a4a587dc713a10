//go:build !race

package records

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/allocation"
	"github.com/hostler/hostler/broker/operation"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

const operationRun = "operation.run"

// binds lets the SKU or the projects name operations. It is drawn apart: other seeds play as they did.
func (s *simulation) binds() {
	by := rand.New(rand.NewPCG(s.seed, 17))
	if by.IntN(100) >= 40 {
		return
	}
	shipLook(s.t, s.db, "demo.begin", "demo.end")
	if by.IntN(100) < 75 {
		s.bound.OnBegin = bound("demo.begin")
	}
	if by.IntN(100) < 75 {
		s.bound.OnEnd = bound("demo.end")
	}
	if by.IntN(2) == 0 {
		_, err := s.db.UpdateSKU(ctx, ada, "h100", "", func(k *broker.SKU) error { k.Bindings = s.bound; return nil })
		s.must(err)
	} else {
		for _, p := range s.projects {
			_, err := s.db.SetBindings(ctx, ada, p.id, "", func(b *broker.OperationBindings) { *b = s.bound })
			s.must(err)
		}
	}
	for range by.IntN(3) {
		m := s.machines[by.IntN(len(s.machines))]
		from := time.Duration(by.IntN(120)) * time.Minute
		s.later(from, func() { s.say("operations fail on node %s", m.id); m.fails[operationRun] = taskcatalog.CodeStepFailed })
		s.later(from+time.Duration(by.IntN(60))*time.Minute, func() { delete(m.fails, operationRun) })
	}
}

// operates carries a plan out. A node gets one task of an operation's attempt, and an allocation has one first attempt.
func (m *machine) operates(task *taskcatalog.Task) taskcatalog.OperationResult {
	p := planOf(m.s.t, task.Params)
	c := m.s.known[p.AllocationID]
	begins := p.OperationID == broker.BoundOperationID(p.AllocationID, broker.TriggerBegin)
	if c == nil {
		m.s.wrong("node %s carries out %s, and nobody has asked for its allocation", m.id, p.OperationID)
	}
	if other := m.ran[p.OperationID]; begins && other != "" && other != task.TaskID {
		m.s.wrong("node %s begins operation %s twice", m.id, p.OperationID)
	}
	m.ran[p.OperationID] = task.TaskID
	if begins {
		m.s.counts["operations of a begin"]++
	} else {
		m.s.counts["operations of an end"]++
	}
	return carriedOut(m.s.t, task.Params, false)
}

// operated holds the rule for an allocation that becomes active: its operation has ended well.
func (s *simulation) operated(c *claim) {
	if s.bound.OnBegin == nil {
		return
	}
	o, err := s.db.Operation(ctx, broker.BoundOperationID(c.id, broker.TriggerBegin))
	if err != nil || o.Status != broker.OperationSucceeded {
		s.wrong("allocation %s is active, and its operation is %s: %v", c.id, o.Status, err)
	}
}

// keepsFor is how long an operation of the end may keep a release: the default of end_operation_pass_after.
const keepsFor = 2 * time.Hour

// passes holds the rules for an allocation whose status changes, if the operation of its end keeps its release: it says until
// when, and the policy passes over nothing else, and nothing earlier.
func (s *simulation) passes(c *claim, a broker.Allocation) {
	switch {
	case a.Status == broker.AllocationReleaseFailed && a.Code == allocation.CodeEndOperation:
		if !a.GoesOnAt.Equal(a.ReleasingAt.Add(keepsFor)) {
			s.wrong("the operation of its end keeps allocation %s since %v until %v", a.ID, a.ReleasingAt, a.GoesOnAt)
		}
		s.later(max(a.GoesOnAt.Sub(s.clock.Now()), 0), func() {})
	case !a.PassedAt.IsZero() && !c.passed:
		c.passed = true
		s.counts["ends passed over"]++
		if a.PassedAt.Before(a.ReleasingAt.Add(keepsFor)) || c.status == broker.AllocationReleaseFailed && c.code != allocation.CodeEndOperation {
			s.wrong("allocation %s, which was %s %s, goes on at %v without the operation of its end", a.ID, c.status, c.code, a.PassedAt)
		}
	}
}

// kept holds the rule for the releases that the operation of their end keeps, after a broker has looked at them.
func (s *simulation) kept() {
	for _, id := range s.ids {
		if c := s.known[id]; c.status == broker.AllocationReleaseFailed && c.code == allocation.CodeEndOperation && !s.clock.Now().Before(c.to.Add(keepsFor)) {
			s.wrong("the operation of its end keeps allocation %s since %v", id, c.to)
		}
	}
}

func (m mortalRecords) Bound(ctx context.Context, a broker.Allocation, t broker.OperationTrigger, w allocation.Wish) (o *broker.Operation, waits string, err error) {
	err = m.b.call(func() error { o, waits, err = m.Records.Bound(ctx, a, t, w); return err })
	return o, waits, err
}

func (m mortalRecords) Left(ctx context.Context, a broker.Allocation, t broker.OperationTrigger) (l allocation.Left, err error) {
	err = m.b.call(func() error { l, err = m.Records.Left(ctx, a, t); return err })
	return l, err
}

func (m mortalRecords) EndOthers(ctx context.Context, a broker.Allocation) (running map[string]string, err error) {
	err = m.b.call(func() error { running, err = m.Records.EndOthers(ctx, a); return err })
	return running, err
}

func (m mortalRecords) GiveUp(ctx context.Context, operationID, reason string) error {
	return m.b.call(func() error { return m.Records.GiveUp(ctx, operationID, reason) })
}

// mortalOperations are the records of the operations.
type mortalOperations struct {
	operation.Records
	b *replica
}

func (m mortalOperations) Request(ctx context.Context, t taskstage.Task) (k broker.Task, err error) {
	err = m.b.call(func() error { k, err = m.Records.Request(ctx, t); return err })
	return k, err
}

func (m mortalOperations) Withdraw(ctx context.Context, nodeID, runID, reason string) (all []broker.Task, err error) {
	err = m.b.call(func() error { all, err = m.Records.Withdraw(ctx, nodeID, runID, reason); return err })
	return all, err
}

func (m mortalOperations) Operation(ctx context.Context, id string) (o broker.Operation, err error) {
	err = m.b.call(func() error { o, err = m.Records.Operation(ctx, id); return err })
	return o, err
}
