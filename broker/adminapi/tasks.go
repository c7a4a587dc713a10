package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog"
)

// rolesOfTypes are the task types that need more than an operator. Tasks that decide which programs
// run as root on a node are for the people who manage trust.
var rolesOfTypes = map[string]access{"node.resolver_config": admin, "node.self_update": admin, "node.trust_update": admin}

// mayEnqueue refuses and audits a task type that its caller may not enqueue: a type of another
// role, or a type that only the broker enqueues, because the task is only a part of a larger
// request. Codes: role_insufficient, task_by_broker.
func (a *API) mayEnqueue(ctx context.Context, name string) error {
	if need, ok := rolesOfTypes[name]; ok {
		return a.requireRole(ctx, need, "enqueue "+name)
	}
	t, err := taskcatalog.Latest(name)
	if err != nil || t.ByBroker == "" {
		return nil // the queue reports an unknown type
	}
	who := callerOf(ctx)
	a.auditRefusal(ctx, "enqueue "+name, broker.AuditEntry{
		Actor: who.Name, Code: "task_by_broker", Reason: "enqueue " + name,
		CorrelationID: who.correlationID,
	})
	return broker.Errorf(broker.Refused, "task_by_broker", "cannot enqueue %s: only the broker enqueues this type (use %s)", name,
		t.ByBroker)
}

type enqueueInput struct {
	NodeInput
	Body api.TaskCreate
}

func (a *API) enqueueTask(ctx context.Context, in *enqueueInput) (*api.Task, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	who, c := callerOf(ctx), in.Body
	if err := a.mayEnqueue(ctx, c.Type); err != nil {
		return nil, err
	}
	ctx = withReason(ctx, c.Reason)
	if c.RetryOf != "" {
		if _, _, err := a.task(ctx, c.RetryOf); err != nil {
			return nil, err
		}
	}
	t, _, err := a.c.Queue.Enqueue(ctx, who.actor(), taskqueue.Request{
		NodeID: n.ID, Type: c.Type, Version: c.Version, Params: c.Params,
		IdempotencyKey: c.IdempotencyKey, RetryOf: c.RetryOf,
		CorrelationID: who.correlationID, TraceParent: traceParent(ctx),
	})
	if err != nil {
		return nil, err
	}
	out := taskResource(t, n.Hostname)
	return &out, nil
}

type tasksInput struct {
	Node   string `query:"node" maxLength:"320"`
	Status string `query:"status" maxLength:"200" doc:"one or more statuses, separated by commas; open: queued and dispatched"`
	Type   string `query:"type" maxLength:"64"`
	Cursor string `query:"cursor" maxLength:"200"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000"`
}

func (a *API) listTasks(ctx context.Context, in *tasksInput) (*api.TaskList, error) {
	f := store.TaskFilter{Sites: callerOf(ctx).sites(), Type: in.Type, After: in.Cursor, Limit: pageLimit(in.Limit)}
	for name := range strings.SplitSeq(in.Status, ",") {
		switch s := broker.TaskStatus(name); s {
		case "":
		case "open":
			f.Statuses = append(f.Statuses, broker.TaskQueued, broker.TaskDispatched)
		case broker.TaskQueued, broker.TaskDispatched, broker.TaskSucceeded, broker.TaskFailed, broker.TaskExpired, broker.TaskCanceled:
			f.Statuses = append(f.Statuses, s)
		default:
			return nil, broker.Errorf(broker.Invalid, "status_unknown", "cannot filter by status %q: there is no such task status",
				taskcatalog.Clean(name, 40))
		}
	}
	hostnames := map[string]string{}
	if in.Node != "" {
		n, err := a.node(ctx, in.Node)
		if err != nil {
			return nil, err
		}
		f.NodeID, hostnames[n.ID] = n.ID, n.Hostname
	}
	page, next, err := a.c.DB.ListTasks(ctx, f)
	if err != nil {
		return nil, err
	}
	out := &api.TaskList{Items: make([]api.Task, len(page)), Next: next}
	for i, t := range page {
		if _, ok := hostnames[t.NodeID]; !ok {
			n, err := a.c.DB.Node(ctx, t.NodeID)
			if err != nil {
				return nil, err
			}
			hostnames[n.ID] = n.Hostname
		}
		out.Items[i] = taskResource(t, hostnames[t.NodeID])
	}
	return out, nil
}

// task finds a task of a node that the caller may see.
func (a *API) task(ctx context.Context, id string) (broker.Task, broker.Node, error) {
	t, err := a.c.DB.Task(ctx, id)
	if err != nil {
		return t, broker.Node{}, err
	}
	n, err := a.c.DB.Node(ctx, t.NodeID)
	if err == nil && !callerOf(ctx).MaySee(n.Site) {
		err = broker.Errorf(broker.NotFound, "task_not_found", "there is no task %q (see hostler task list)", taskcatalog.Clean(id, 64))
	}
	return t, n, err
}

// TaskInput names a task; exported for the same reason as NodeInput.
type TaskInput struct {
	Task string `path:"task" maxLength:"64"`
}

type showTaskInput struct {
	TaskInput
	Wait     int    `query:"wait" minimum:"0" maximum:"50" doc:"seconds to hold the request until the task has ended"`
	Progress string `query:"progress" maxLength:"40" doc:"with wait: also answer when the progress has another time than this (its field at)"`
}

// errLeaving ends a wait because the broker stops.
var errLeaving = errors.New("the broker is stopping")

// progressEvery is how often a waiting request looks at a task's progress.
const progressEvery = time.Second

func (a *API) showTask(ctx context.Context, in *showTaskInput) (*api.Task, error) {
	t, n, err := a.task(ctx, in.Task)
	if err != nil {
		return nil, err
	}
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-a.leaving:
			stop(errLeaving)
		case <-waiting.Done():
		}
	}()
	deadline := a.c.Now().Add(time.Duration(in.Wait) * time.Second)
	for !t.Status.Ended() && waiting.Err() == nil {
		if in.Progress != "" && progressAt(t) != in.Progress {
			break
		}
		left := deadline.Sub(a.c.Now())
		if left <= 0 {
			break
		}
		if in.Progress != "" {
			left = min(left, progressEvery)
		}
		now, err := a.c.Queue.AwaitEnd(waiting, t.ID, left)
		if err != nil && waiting.Err() == nil {
			return nil, err
		}
		if err == nil {
			t = now
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	out := taskResource(t, n.Hostname)
	return &out, nil
}

// progressAt is the time of a task's last progress, in the format of its resource; "none" before.
func progressAt(t broker.Task) string {
	if t.Progress == nil {
		return "none"
	}
	return t.Progress.At.UTC().Format(time.RFC3339Nano)
}

type cancelInput struct {
	TaskInput
	Body api.ReasonBody
}

func (a *API) cancelTask(ctx context.Context, in *cancelInput) (*api.Task, error) {
	_, n, err := a.task(ctx, in.Task)
	if err != nil {
		return nil, err
	}
	t, err := a.c.Queue.Cancel(ctx, callerOf(ctx).actor(), in.Task, in.Body.Reason)
	if err != nil {
		return nil, err
	}
	out := taskResource(t, n.Hostname)
	return &out, nil
}

// shownParams are a task's params without the words of a terminal's command. Readers of tasks are
// not meant to see these words, which may hold a secret.
func shownParams(t broker.Task) json.RawMessage {
	var p taskcatalog.TerminalOpenParams
	if t.Type != "terminal.open" || json.Unmarshal(t.Params, &p) != nil || len(p.Command) == 0 {
		return t.Params
	}
	p.Command = []string{"(not shown)"}
	raw, err := taskcatalog.Encode(p)
	if err != nil {
		return nil
	}
	return raw
}

func taskResource(t broker.Task, hostname string) api.Task {
	out := api.Task{
		ID: t.ID, NodeID: t.NodeID, NodeEpoch: t.NodeEpoch, Hostname: hostname,
		Type: t.Type, Version: t.Version, Class: string(t.Class), Lane: string(t.Lane), Params: shownParams(t),
		Status: string(t.Status), Ended: t.Status.Ended(), Attempt: t.Attempt, RetryOf: t.RetryOf,
		IdempotencyKey: t.IdempotencyKey, CorrelationID: t.CorrelationID, TraceParent: t.TraceParent, EnqueuedBy: t.EnqueuedBy,
		KeyID: t.KeyID, EnvelopeDigest: t.EnvelopeDigest,
		IssuedAt: t.IssuedAt, NotAfter: t.NotAfter, DispatchedAt: t.DispatchedAt, LeaseUntil: t.LeaseUntil, EndedAt: t.EndedAt,
		CancelRequested: t.CancelRequested, Outcome: string(t.Outcome), Code: string(t.Code), Message: t.Message,
		Verdict: string(t.Verdict), Result: t.Result, Evidence: len(t.Evidence) > 0,
	}
	if l := t.Late; l != nil {
		out.Late = &api.LateWord{
			At: l.At.UTC(), Outcome: string(l.Outcome), Code: string(l.Code), Message: l.Message, Running: l.Running,
			Probe: l.Probe,
		}
	}
	if p := t.Progress; p != nil {
		out.Progress = &api.Progress{
			CurrentStepIndex: p.CurrentStepIndex, TotalSteps: p.TotalSteps, CurrentStepName: p.CurrentStepName,
			StepStatus: p.StepStatus, StepStartedAt: p.StepStartedAt, StepPercent: p.StepPercent, Message: p.Message, At: p.At.UTC(),
		}
	}
	return out
}

// unmarshal reads JSON that the broker itself wrote.
func unmarshal(raw []byte, v any) bool { return json.Unmarshal(raw, v) == nil }
