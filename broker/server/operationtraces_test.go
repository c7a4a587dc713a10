package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/nodeapi"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

// A broker that sends no spans reads nothing for them: there is no store to read, nor a tracer.
func TestSpansThatAreNotSentCostNothing(t *testing.T) {
	var off operationTraces
	ends := []any{broker.EndOperation{ID: "op-1"}}
	off.effects(t.Context(), off.ending(t.Context(), ends), ends, time.Time{})
	off.minted(nodeapi.MintEnd{Task: broker.Task{ID: "t-1", TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}})
}

// The steps of a task are laid one after another, up to its end, and never beyond what time there was.
func TestStepsAreLaidWithinTheirRun(t *testing.T) {
	from := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	at := func(ms int64) time.Time { return from.Add(time.Duration(ms) * time.Millisecond) }
	for name, c := range map[string]struct {
		said []int64
		want [][2]int64
	}{
		"none":                       {nil, nil},
		"with a pause before":        {[]int64{100, 200}, [][2]int64{{700, 800}, {800, 1000}}},
		"as long as the run":         {[]int64{400, 600}, [][2]int64{{0, 400}, {400, 1000}}},
		"longer than the run":        {[]int64{500, 600}, [][2]int64{{0, 400}, {400, 1000}}},
		"the last beyond all bounds": {[]int64{5, 1 << 62}, [][2]int64{{0, 0}, {0, 1000}}},
	} {
		var steps []broker.OperationStep
		for _, ms := range c.said {
			steps = append(steps, broker.OperationStep{OperationStep: taskcatalog.OperationStep{StepRecord: taskcatalog.StepRecord{DurationMS: ms}}})
		}
		for i, s := range laid(steps, from, at(1000)) {
			if !s.from.Equal(at(c.want[i][0])) || !s.to.Equal(at(c.want[i][1])) {
				t.Errorf("%s: step %d is from %s to %s", name, i, s.from, s.to)
			}
		}
	}
	// A clock that was set back makes steps of no length.
	if all := laid(make([]broker.OperationStep, 1), at(1000), from); !all[0].from.Equal(all[0].to) {
		t.Errorf("%+v", all)
	}
}

// A large attempt in as many batches as nodes: the root and the judgement end first, and only the tasks that failed have
// spans of their steps.
func TestALargeAttemptHasFewSpans(t *testing.T) {
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for nodes, want := range map[int]struct {
		steps   int
		leftOut string
	}{mostDetailed: {2 * mostDetailed, ""}, 1000: {2 * 2, "1996"}} {
		ended := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(spanIDs{}), sdktrace.WithSpanProcessor(ended))
		traces := operationTraces{tracer: provider.Tracer("test"), sent: true}
		o := broker.Operation{
			ID: "op-1", Operation: "demo", Status: broker.OperationSucceeded, Batches: broker.OperationBatches{Size: 1},
			StartedAt: at, EndedAt: at.Add(time.Hour),
		}
		var tasks []broker.Task
		var steps []broker.OperationStep
		for i := range nodes {
			id := fmt.Sprint("n-", i)
			o.NodeIDs = append(o.NodeIDs, id)
			k := broker.Task{
				ID: "t-" + id, NodeID: id, Type: broker.OperationTask, Status: broker.TaskSucceeded, IssuedAt: at, DispatchedAt: at,
				EndedAt: at.Add(time.Minute),
			}
			if i == 3 || i == nodes-1 {
				k.Status = broker.TaskFailed
			}
			tasks = append(tasks, k)
			steps = append(steps, broker.OperationStep{Place: i}, broker.OperationStep{Place: i, Seq: 1})
		}
		below, root := traces.start(t.Context(), "operation demo", o.Span(), at)
		traces.attempt(below, root, o, at, tasks, steps)
		all, count := ended.Ended(), map[string]int{}
		for _, s := range all {
			first, _, _ := strings.Cut(s.Name(), " ")
			count[first]++
		}
		if all[0].Name() != "operation demo" || all[1].Name() != "judge operation" {
			t.Errorf("%d nodes: first ended are %s and %s", nodes, all[0].Name(), all[1].Name())
		}
		if count["batch"] != nodes || count["task"] != nodes || count["step"] != want.steps {
			t.Errorf("%d nodes: the spans are %v, want %d steps", nodes, count, want.steps)
		}
		leftOut := ""
		for _, a := range all[0].Attributes() {
			if a.Key == "hostler.spans_left_out" {
				leftOut = a.Value.String()
			}
		}
		if leftOut != want.leftOut {
			t.Errorf("%d nodes: %q spans are left out, want %q", nodes, leftOut, want.leftOut)
		}
	}
}

// An operation that a cancel ended, because its run was gone, counts and has a trace like any other.
func TestAnOperationWithoutARunIsCountedAndTraced(t *testing.T) {
	ended, clock := tracetest.NewSpanRecorder(), storetest.NewClock()
	provider := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(spanIDs{}), sdktrace.WithSpanProcessor(ended))
	db := storetest.Open(t, "sqlite", clock.Now)
	runs := &countedRuns{DB: db, operations: newOperationCounts(), traces: &operationTraces{db: db, tracer: provider.Tracer("test"), sent: true}}
	runs.ended(t.Context(), broker.Operation{
		ID: "op-1", Operation: "demo.look@v1", RunID: "op-1-2", Attempt: 2, Status: broker.OperationCanceled, Code: "canceled",
		RequestedAt: clock.Now().Add(-time.Hour), StartedAt: clock.Now().Add(-time.Minute), EndedAt: clock.Now(),
	})
	if n := counted(t, runs.operations)["hostler_operations_ended_total canceled demo.look canceled"]; n != 1 {
		t.Errorf("it counts %v times", n)
	}
	all := ended.Ended()
	if len(all) == 0 || all[0].Name() != "operation demo.look@v1" || all[0].EndTime().Sub(all[0].StartTime()) != time.Minute {
		t.Errorf("the spans are %+v", all)
	}
}
