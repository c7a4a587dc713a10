package operation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/operation"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

var ctx = context.Background()

// world is a broker with one operation on the nodes of an allocation, in memory.
type world struct {
	testing.TB
	clock  *chaintest.Clock
	store  *chaintest.Memory
	lossy  *chaintest.Lossy
	engine *chain.Engine

	o      broker.Operation
	steps  []broker.OperationStep
	ends   int // how often the operation ended
	stated []string
	// unsigned is why no statement can be signed.
	unsigned error
	refuse   error
	unbegun  func(next []string) error // nil: what is to begin may
	lost     []string                  // members of a group that are left out
	stolen   []string                  // nodes that somebody else has when the run takes them
	took     []string                  // nodes that the run took
	tasks    map[string]*broker.Task   // by key
	free     []string                  // nodes that other operations may have
	asked    []string                  // keys, in the order of the first request
	reads    map[string]int            // how often each was asked for
	// does is the work of a node's agent at each look; nil: the task succeeds.
	does func(k *broker.Task)
}

func newWorld(t testing.TB, nodes ...string) *world {
	t.Helper()
	w := &world{TB: t, clock: chaintest.NewClock(), tasks: map[string]*broker.Task{}, reads: map[string]int{}}
	w.store = chaintest.NewMemory(w.clock.Now)
	w.store.Apply = w.apply
	w.lossy = &chaintest.Lossy{Store: w.store}
	w.o = broker.Operation{
		ID: "op-1", Operation: "demo.look@v1", ProjectID: "p-1", Target: broker.TargetAllocation, AllocationID: "a-1", NodeIDs: nodes,
		Plan: taskcatalog.OperationPlan{OperationID: "op-1", Attempt: 1, Steps: []taskcatalog.PlannedStep{
			{ID: "driver", Kind: "gpu.driver.validate"}, {ID: "runtime", Kind: "gpu.runtime.check"},
		}},
		Status: broker.OperationQueued, Attempt: 1, RunID: "op-1-1",
	}
	classes := chain.Classes{}
	for _, h := range broker.FailureHandlings {
		ends := chain.FailedRetryable
		if h.Person {
			ends = chain.FailedManual
		}
		classes[chain.Class(h.Class)] = chain.Handling{Retry: h.Retry, Rescue: h.Rescue, Ends: ends, NextAction: h.NextAction(), UndoAction: h.UndoAction()}
	}
	var err error
	if w.engine, err = chain.New(w.lossy, classes, chain.Options{Owner: "broker"}, (&operation.Chains{Records: w}).All()...); err != nil {
		t.Fatal(err)
	}
	return w
}

// start starts the run of the present attempt.
func (w *world) start() {
	w.Helper()
	if _, err := w.engine.Start(ctx, chain.Start{
		ID: w.o.RunID, Kind: broker.OperationKind, Site: "dc1", Subject: "operation/op-1", Locks: []string{"operation/op-1"},
		State: operation.Work{OperationID: "op-1", Attempt: w.o.Attempt, NodeIDs: w.o.NodeIDs},
	}); err != nil {
		w.Fatal(err)
	}
}

// settle lets everything happen that happens by itself.
func (w *world) settle() {
	w.Helper()
	for range 3 {
		if err := chaintest.Settle(ctx, w.engine, w.store, w.clock); err != nil && !errors.Is(err, chaintest.ErrKilled) {
			w.Fatal(err)
		}
		w.clock.Advance(2 * time.Minute) // beyond the lease of a broker that died
	}
}

// settleFor lets happen what happens within a time.
func (w *world) settleFor(d time.Duration) {
	w.Helper()
	for end := w.clock.Now().Add(d); w.clock.Now().Before(end); {
		if worked, err := w.engine.Step(ctx); err != nil && !errors.Is(err, chaintest.ErrKilled) {
			w.Fatal(err)
		} else if !worked {
			w.clock.Advance(time.Second)
		}
	}
}

func (w *world) act(a chain.Action) {
	w.Helper()
	if _, err := w.engine.Act(ctx, chain.Order{ID: w.o.RunID, Actor: chain.Actor{Name: "ada"}, Action: a, Reason: "because"}); err != nil {
		w.Fatal(err)
	}
}

// stands checks how the operation ended, and that its run has ended too.
func (w *world) stands(status broker.OperationStatus, code string) {
	w.Helper()
	if w.o.Status != status || w.o.Code != code || w.ends != 1 {
		w.Errorf("it is %s (%s: %s), and ended %d times, want %s (%s)", w.o.Status, w.o.Code, w.o.Message, w.ends, status, code)
	}
	r, err := w.store.Run(ctx, w.o.RunID)
	if err != nil || !r.Status.Ended() {
		w.Errorf("its run is %s at %s: %v, %v", r.Status, r.Stage, r.Failure, err)
	}
}

func (w *world) apply(effect any) error {
	switch e := effect.(type) {
	case broker.StartOperation:
		if err := broker.TransitionOperation(w.o, broker.OperationRunning, broker.OperationWorker); err != nil {
			return err
		}
		w.o.Status = broker.OperationRunning
	case broker.BatchOperation:
		w.o.Batch, w.o.Members = e.Batch, e.Members
		w.free = append(w.free, e.Free...)
		w.took = append(w.took, e.Take...)
	case broker.EndOperation:
		next := w.o
		next.Code, next.Message = e.Code, e.Message
		if err := broker.TransitionOperation(next, e.To, broker.OperationWorker); err != nil {
			return err
		}
		w.o, w.steps = next, append(w.steps, e.Steps...)
		w.o.Members = e.Members
		w.o.Status = e.To
		w.ends++
		w.stated = append(w.stated, string(e.Statement))
	default:
		return fmt.Errorf("nothing applies a %T", effect)
	}
	return nil
}

func (w *world) Operation(context.Context, string) (broker.Operation, error) { return w.o, nil }

// Check refuses what is to begin once unbegun, and everything once refuse is set.
func (w *world) Check(_ context.Context, o broker.Operation, nodes []string, begins bool) (lost map[string]string, err error) {
	lost = map[string]string{}
	for _, member := range w.lost {
		switch {
		case !o.NodeGroup():
			lost[member] = broker.OperationTargetGone
		case slices.Contains(nodes, member):
			lost[member] = "allocation_live"
		}
	}
	for _, node := range nodes {
		if o.NodeGroup() && !begins && (!slices.Contains(w.took, node) || slices.Contains(w.stolen, node)) {
			lost[node] = "node_in_run"
		}
	}
	if begins && w.unbegun != nil {
		return lost, w.unbegun(nodes)
	}
	return lost, w.refuse
}

func (w *world) Request(_ context.Context, t taskstage.Task) (broker.Task, error) {
	k := w.tasks[t.Key]
	w.reads[t.Key]++
	if k == nil {
		if t.Type != "operation.run" || t.Params.(taskcatalog.OperationPlan).Attempt != w.o.Attempt {
			w.Errorf("asked for %+v", t)
		}
		k = &broker.Task{ID: "t-" + t.Key, NodeID: t.NodeID, CorrelationID: t.RunID, Type: t.Type, Status: broker.TaskQueued, IssuedAt: w.clock.Now()}
		if got := t.Params.(taskcatalog.OperationPlan).AllocationID; slices.Contains(w.lost, got) || got != w.allocationOf(t.NodeID) {
			w.Errorf("node %s is asked for allocation %q", t.NodeID, got)
		}
		w.tasks[t.Key] = k
		w.asked = append(w.asked, t.Key)
		return *k, nil
	}
	if !k.Status.Ended() {
		if w.does == nil {
			succeed(k)
		} else {
			w.does(k)
		}
	}
	return *k, nil
}

func (w *world) Withdraw(_ context.Context, nodeID, runID, _ string) (all []broker.Task, err error) {
	for _, key := range w.asked {
		k := w.tasks[key]
		if k.NodeID != nodeID || k.CorrelationID != runID {
			continue
		}
		switch {
		case k.Status == broker.TaskQueued:
			k.Status, k.Code = broker.TaskCanceled, taskcatalog.CodeCanceled
		case k.Status == broker.TaskDispatched && k.CancelRequested: // the agent stops at the second look
			k.Status, k.Outcome, k.Code = broker.TaskCanceled, taskcatalog.OutcomeCanceled, taskcatalog.CodeCanceled
		case k.Status == broker.TaskDispatched:
			k.CancelRequested = true
		}
		all = append(all, *k)
	}
	return all, nil
}

func (w *world) Tasks(_ context.Context, nodeID, runID string) (all []broker.Task, err error) {
	for _, key := range w.asked {
		if k := w.tasks[key]; k.NodeID == nodeID && k.CorrelationID == runID {
			all = append(all, *k)
		}
	}
	return all, nil
}

func (w *world) Statement(_ context.Context, o broker.Operation, end broker.EndOperation) (file, receipt []byte, err error) {
	return fmt.Appendf(nil, "%s %d %s", o.ID, o.Attempt, end.To), nil, w.unsigned
}

func (w *world) allocationOf(node string) string {
	for _, p := range w.o.Parts() {
		if slices.Contains(p.NodeIDs, node) {
			return p.AllocationID
		}
	}
	return ""
}

func row(id string, status taskcatalog.StepStatus, code taskcatalog.Code) taskcatalog.OperationStep {
	return taskcatalog.OperationStep{ID: id, StepRecord: taskcatalog.StepRecord{StepKind: "told by the node", AttemptNumber: 1, Status: status, ErrorCode: code, DurationMS: 12}}
}

func result(k *broker.Task, rows ...taskcatalog.OperationStep) {
	raw, err := json.Marshal(taskcatalog.OperationResult{Steps: rows})
	if err != nil {
		panic(err)
	}
	k.Result = raw
}

func succeed(k *broker.Task) {
	k.Status, k.Outcome = broker.TaskSucceeded, taskcatalog.OutcomeSucceeded
	result(k, row("driver", taskcatalog.StepSucceeded, ""), row("runtime", taskcatalog.StepSkipped, ""))
}

func fail(k *broker.Task) {
	k.Status, k.Outcome, k.Code, k.Message = broker.TaskFailed, taskcatalog.OutcomeFailed, taskcatalog.CodeStepFailed, "no driver"
	result(k, row("driver", taskcatalog.StepFailed, "exit_code"))
}

func (w *world) told() (steps []string) {
	for _, m := range w.store.Outbox() {
		if m.Type == operation.ProgressEvent {
			data := m.Data.(map[string]any)
			steps = append(steps, fmt.Sprint(data["place"], " ", data["current_step_name"], " ", data["step_status"]))
		}
	}
	return steps
}

func (w *world) rows() (all []string) {
	for _, s := range w.steps {
		all = append(all, fmt.Sprintf("%d/%d/%d %s %s %s%s", s.Task, s.Place, s.Seq, s.ID, s.StepKind, s.Status, s.ErrorCode))
	}
	return slices.Clip(all)
}
