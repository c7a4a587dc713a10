package server

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

const (
	// maxTraced bounds the number of tasks whose steps are followed at one time.
	maxTraced = 10_000
	// stepLife is longer than any step takes.
	stepLife = 6 * time.Hour
)

// steps turns the progress of tasks into spans below the request that enqueued them: one span for
// each reported step, and one for the task. Those of an operation's task come from its records
// (operationTraces). The node sends no spans of its own. The times are the broker's, at the arrival of
// the report, because a node's clock may differ.
type steps struct {
	db     *store.DB
	tracer trace.Tracer
	now    func() time.Time

	mu   sync.Mutex
	open map[string]*step // by task
}

// step is the present step of a task.
type step struct {
	operation bool // its task is an operation's, whose steps are not followed
	parent    trace.SpanContext
	node      string
	name      string
	index     int
	since     time.Time
}

func newSteps(db *store.DB, tracer trace.Tracer, now func() time.Time) *steps {
	return &steps{db: db, tracer: tracer, now: now, open: map[string]*step{}}
}

// stepped is called with each accepted progress.
func (s *steps) stepped(ctx context.Context, taskID string, p broker.Progress) {
	s.mu.Lock()
	at, known := s.open[taskID]
	room := len(s.open) < maxTraced
	s.mu.Unlock()
	if !known {
		if !room && !s.forget() {
			return
		}
		t, err := s.db.Task(ctx, taskID)
		if err != nil {
			return // a missing trace is no reason to refuse progress
		}
		at = &step{
			operation: t.Type == broker.OperationTask, parent: parentOf(t), node: t.NodeID,
			name: p.CurrentStepName, index: p.CurrentStepIndex, since: s.now(),
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if current, ok := s.open[taskID]; ok {
		at = current
	} else {
		s.open[taskID] = at
	}
	if at.operation {
		return
	}
	if at.name != p.CurrentStepName || at.index != p.CurrentStepIndex {
		s.end(taskID, at, true)
		at.name, at.index, at.since = p.CurrentStepName, p.CurrentStepIndex, s.now()
	}
}

// ended is called with each task that has its result.
func (s *steps) ended(t broker.Task) {
	done := t.Status == broker.TaskSucceeded
	s.mu.Lock()
	at, ok := s.open[t.ID]
	if ok && !at.operation {
		s.end(t.ID, at, done)
	}
	delete(s.open, t.ID)
	s.mu.Unlock()
	if t.Type == broker.OperationTask {
		return
	}
	_, span := s.tracer.Start(withSpanID(under(parentOf(t)), t.Span()), "task "+t.Type,
		trace.WithTimestamp(t.DispatchedAt), trace.WithAttributes(taskAttributes(t)...))
	if !done {
		span.SetStatus(codes.Error, string(t.Code))
	}
	span.End(trace.WithTimestamp(t.EndedAt))
}

// forget drops the tasks that ended without a result, and reports whether there is room now.
func (s *steps) forget() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, at := range s.open {
		if s.now().Sub(at.since) > stepLife {
			delete(s.open, id)
		}
	}
	return len(s.open) < maxTraced
}

// end makes the span of a finished step. The caller holds mu.
func (s *steps) end(taskID string, at *step, done bool) {
	_, span := s.tracer.Start(under(at.parent), "step "+at.name,
		trace.WithTimestamp(at.since), trace.WithAttributes(
			attribute.String("hostler.task_id", taskID), attribute.String("hostler.node_id", at.node),
			attribute.Int("hostler.step_index", at.index)))
	if !done {
		span.SetStatus(codes.Error, "the task ended in this step")
	}
	span.End(trace.WithTimestamp(s.now()))
}

func parentOf(t broker.Task) trace.SpanContext {
	return spanContextOf(broker.TraceParent(t.TraceParent))
}

func taskAttributes(t broker.Task) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("hostler.task_id", t.ID), attribute.String("hostler.node_id", t.NodeID),
		attribute.Int("hostler.attempt", t.Attempt),
		attribute.String("hostler.outcome", string(t.Outcome)), attribute.String("hostler.code", string(t.Code)),
		attribute.String("hostler.verdict", string(t.Verdict)),
	}
}
