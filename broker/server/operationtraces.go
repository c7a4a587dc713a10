package server

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/nodeapi"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// operationTraces makes the spans of operations. Those of an attempt are made when it has ended, from its records
// alone, by the broker that ended it: no span is kept open, and neither a restart nor another broker loses one. Only a
// broker that dies between that transaction and the sending of the spans does.
//
// The times are the store's. A node says how long a step took and not when: its steps are laid one after another, so
// that the last ends when the task did, and none begins before the task was delivered. A node's clock counts nowhere.
type operationTraces struct {
	db     *store.DB
	tracer trace.Tracer
	sent   bool
}

// planning is the span in which an operation is planned: the policies judge it, and its inputs are bound.
func (t *operationTraces) planning(ctx context.Context) (broker.TraceParent, func(broker.Operation, error)) {
	ctx, span := t.tracer.Start(ctx, "plan operation")
	return traceParentOf(trace.SpanContextFromContext(ctx)), func(o broker.Operation, err error) {
		span.SetAttributes(attribute.String("hostler.operation", o.Operation), attribute.String("hostler.project_id", o.ProjectID))
		if err != nil {
			failSpan(span, broker.AsError(err).Code)
		}
		span.End()
	}
}

// tracing bounds what the spans of an attempt wait for.
const tracing = 5 * time.Second

// ending reads the operations whose attempts a change ends, before it is saved: a retry may follow at once.
func (t *operationTraces) ending(ctx context.Context, effects []any) (all []broker.Operation) {
	if !t.sent {
		return nil
	}
	ctx, done := context.WithTimeout(ctx, tracing)
	defer done()
	for _, e := range effects {
		if end, ends := e.(broker.EndOperation); ends {
			if o, err := t.db.Operation(ctx, end.ID); err == nil {
				all = append(all, o)
			}
		}
	}
	return all
}

// effects makes the spans of the attempts that a saved change has ended. before is what ending read.
func (t *operationTraces) effects(ctx context.Context, before []broker.Operation, all []any, requested time.Time) {
	for _, e := range all {
		end, ends := e.(broker.EndOperation)
		at := slices.IndexFunc(before, func(o broker.Operation) bool { return o.ID == end.ID })
		if !ends || at < 0 {
			continue
		}
		o := before[at]
		o.Status, o.Code, o.EndedAt = end.To, end.Code, t.db.Now()
		t.ended(ctx, o, requested, end.Steps)
	}
}

// ended makes the spans of an attempt. What cannot be read is missing in the trace, and nothing else fails.
func (t *operationTraces) ended(ctx context.Context, o broker.Operation, requested time.Time, steps []broker.OperationStep) {
	if !t.sent {
		return
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), tracing)
	defer done()
	below, span := t.start(under(spanContextOf(o.TraceParent)), "operation "+o.Operation, o.Span(), requested, attemptOf(o)...)
	if !span.IsRecording() {
		return
	}
	tasks, _, err := t.db.ListTasks(ctx, store.TaskFilter{
		CorrelationID: o.RunID, Type: broker.OperationTask, Limit: broker.MostOperationNodes,
	})
	if err != nil {
		tasks = nil
	}
	t.attempt(below, span, o, requested, tasks, steps)
}

// mostDetailed is how many tasks an attempt may have for the steps of each to be spans. Of a larger one, only tasks that
// failed have them: what is sent in one go waits in a queue of 2048 spans, unless the environment says otherwise, and what
// the queue cannot take is lost.
const mostDetailed = 100

// attempt ends the root span of an attempt, and makes the spans below it from the attempt's records. The root and the
// judgement end first, so that a queue that fills up has them: without its root, a trace is hard to find.
func (t *operationTraces) attempt(
	below context.Context, span trace.Span, o broker.Operation, requested time.Time, tasks []broker.Task, steps []broker.OperationStep,
) {
	if o.Status == broker.OperationFailed {
		failSpan(span, o.Code)
	}
	places := make(map[string]int, len(o.NodeIDs))
	for i, id := range o.NodeIDs {
		places[id] = i
	}
	shown, leftOut := shownSteps(places, tasks, steps)
	if leftOut > 0 {
		span.SetAttributes(attribute.Int("hostler.spans_left_out", leftOut))
	}
	span.End(trace.WithTimestamp(o.EndedAt))
	_, judging := t.start(below, "judge operation", "", requested)
	if o.StartedAt.IsZero() && o.Status == broker.OperationFailed {
		failSpan(judging, o.Code)
	}
	judging.End(trace.WithTimestamp(cmp.Or(o.StartedAt, o.EndedAt)))
	batches := t.batches(below, o, places, tasks)
	for _, k := range tasks {
		t.task(below, o, k, batches[o.Batches.Of(places[k.NodeID])], shown[k.ID])
	}
}

// shownSteps are the steps that become spans, by task, and the number of those that do not.
func shownSteps(places map[string]int, tasks []broker.Task, steps []broker.OperationStep) (map[string][]broker.OperationStep, int) {
	byPlace := map[int][]broker.OperationStep{}
	for _, s := range steps {
		if !s.Earlier { // a former task ran that one
			byPlace[s.Place] = append(byPlace[s.Place], s)
		}
	}
	shown, leftOut := map[string][]broker.OperationStep{}, 0
	for _, k := range tasks {
		place, known := places[k.NodeID]
		switch {
		case !known || k.DispatchedAt.IsZero(): // none ran
		case len(tasks) > mostDetailed && (k.Status == broker.TaskSucceeded || k.Status == broker.TaskCanceled):
			leftOut += len(byPlace[place])
		default:
			shown[k.ID] = byPlace[place]
		}
	}
	return shown, leftOut
}

func attemptOf(o broker.Operation) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("hostler.operation_id", o.ID), attribute.String("hostler.operation", o.Operation),
		attribute.String("hostler.correlation_id", o.CorrelationID), attribute.String("hostler.organisation_id", o.OrganisationID),
		attribute.String("hostler.project_id", o.ProjectID), attribute.String("hostler.resource_name", string(o.Target)+"/"+o.TargetID),
		attribute.String("hostler.site", o.Site), attribute.String("hostler.trigger_source", string(o.Trigger)),
		attribute.Int("hostler.attempt", o.Attempt), attribute.Int("hostler.nodes", len(o.NodeIDs)),
		attribute.String("hostler.status", string(o.Status)), attribute.String("hostler.error_code", o.Code),
	}
}

// batches makes the spans of the batches that began, if the operation has several: each from its first task to the end
// of its last.
func (t *operationTraces) batches(
	below context.Context, o broker.Operation, places map[string]int, tasks []broker.Task,
) map[int]trace.SpanContext {
	count := o.Batches.Count(len(o.NodeIDs))
	if count == 1 {
		return nil
	}
	from, to := map[int]time.Time{}, map[int]time.Time{}
	for _, k := range tasks {
		place, known := places[k.NodeID]
		if !known {
			continue
		}
		batch := o.Batches.Of(place)
		if first := from[batch]; first.IsZero() || k.IssuedAt.Before(first) {
			from[batch] = k.IssuedAt
		}
		if end := endOf(o, k); end.After(to[batch]) {
			to[batch] = end
		}
	}
	made := map[int]trace.SpanContext{}
	for _, batch := range slices.Sorted(maps.Keys(from)) {
		_, span := t.start(below, "batch", "", from[batch], attribute.Int("hostler.batch", batch+1), attribute.Int("hostler.batches", count))
		span.End(trace.WithTimestamp(to[batch]))
		made[batch] = span.SpanContext()
	}
	return made
}

// task makes the spans of a task and of its steps.
func (t *operationTraces) task(
	below context.Context, o broker.Operation, k broker.Task, batch trace.SpanContext, steps []broker.OperationStep,
) {
	end := endOf(o, k)
	ctx, span := t.start(below, "task "+k.Type, k.Span(), k.IssuedAt, taskAttributes(k)...)
	if batch.IsValid() {
		span.AddLink(trace.Link{SpanContext: batch})
	}
	defer span.End(trace.WithTimestamp(end))
	if k.Status != broker.TaskSucceeded {
		failSpan(span, cmp.Or(string(k.Code), string(k.Status)))
	}
	_, queued := t.start(ctx, "queued", "", k.IssuedAt)
	if k.DispatchedAt.IsZero() {
		queued.End(trace.WithTimestamp(end))
		return
	}
	queued.End(trace.WithTimestamp(k.DispatchedAt))
	span.AddEvent("delivered", trace.WithTimestamp(k.DispatchedAt))
	ctx, run := t.start(ctx, "run", "", k.DispatchedAt)
	defer run.End(trace.WithTimestamp(end))
	for _, s := range laid(steps, k.DispatchedAt, end) {
		_, one := t.start(ctx, "step "+s.ID, "", s.from,
			attribute.String("hostler.step_id", s.ID), attribute.String("hostler.step_kind", s.StepKind),
			attribute.String("hostler.resolved_profile", s.ResolvedProfile), attribute.String("hostler.hardware_match", s.HardwareMatch),
			attribute.Int("hostler.attempt_number", s.AttemptNumber), attribute.String("hostler.status", string(s.Status)),
			attribute.String("hostler.error_code", string(s.ErrorCode)), attribute.Int64("hostler.duration_ms", s.DurationMS),
			attribute.String("hostler.task_id", k.ID), attribute.String("hostler.node_id", k.NodeID))
		if s.Status == taskcatalog.StepFailed {
			failSpan(one, string(s.ErrorCode))
		}
		one.End(trace.WithTimestamp(s.to))
	}
}

// endOf is the end of a task; of one that its operation did not wait for, the operation's.
func endOf(o broker.Operation, k broker.Task) time.Time { return cmp.Or(k.EndedAt, o.EndedAt) }

// placed is a step between two moments of the store's clock.
type placed struct {
	broker.OperationStep
	from, to time.Time
}

// laid lays steps one after another, the last up to the end. What a node says beyond the time that there was is cut
// off.
func laid(steps []broker.OperationStep, from, to time.Time) []placed {
	all := make([]placed, len(steps))
	for i, s := range slices.Backward(steps) {
		room := max(to.Sub(from), 0)
		took := room
		if s.DurationMS <= room.Milliseconds() {
			took = time.Duration(s.DurationMS) * time.Millisecond
		}
		all[i] = placed{s, to.Add(-took), to}
		to = to.Add(-took)
	}
	return all
}

// minted makes the span of a node's request for a credential, below the span of its task.
func (t *operationTraces) minted(m nodeapi.MintEnd) {
	if !t.sent {
		return
	}
	parent := spanContextOf(broker.TraceParent(m.Task.TraceParent).Below(m.Task.Span()))
	if !parent.IsValid() {
		return // a task of no trace, or none of the node's
	}
	_, span := t.start(under(parent), "mint credential", "", m.Begun, attribute.String("hostler.credential_type", mintType(m.Type)),
		attribute.String("hostler.step_id", m.Step), attribute.String("hostler.task_id", m.Task.ID), attribute.String("hostler.node_id", m.Task.NodeID))
	if m.Err != nil {
		code := broker.AsError(m.Err).Code
		span.SetAttributes(attribute.String("hostler.error_code", code))
		failSpan(span, code)
	}
	span.End(trace.WithTimestamp(m.Ended))
}

// start begins a span at a moment, with an id that was said before; empty: any.
func (t *operationTraces) start(
	ctx context.Context, name, id string, at time.Time, about ...attribute.KeyValue,
) (context.Context, trace.Span) {
	_, span := t.tracer.Start(withSpanID(ctx, id), name, trace.WithTimestamp(at), trace.WithAttributes(about...))
	return under(span.SpanContext()), span
}

func failSpan(s trace.Span, code string) { s.SetStatus(codes.Error, code) }
