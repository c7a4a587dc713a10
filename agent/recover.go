package agent

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/ledger"
	"github.com/hostler/hostler/taskcatalog"
)

// probeTime is how long a handler's probe may look.
const probeTime = 30 * time.Second

// recoverTasks reports the tasks interrupted by a crash. A started task may have been executed in
// part or whole, and is never started again.
func (a *Agent) recoverTasks() {
	left, err := a.ledger.Open(func(e *ledger.Entry) bool { return e.State == ledger.Started || e.Reported && e.After })
	if err != nil {
		a.Log.Error("cannot read the ledger", zap.Error(err))
		return
	}
	for _, e := range left {
		a.mu.Lock()
		runs := a.running[e.Task.TaskID] != nil
		a.mu.Unlock()
		switch {
		case runs:
		case e.State == ledger.Started:
			a.endStarted(e, "the agent ended while the task ran")
		default:
			a.after(context.Background(), e)
		}
	}
	wake(a.results)
}

// endStarted ends or resumes a task that may have been executed. The task is not started again.
func (a *Agent) endStarted(e ledger.Entry, why string) {
	if a.endCompleted(e) || a.resume(e) {
		return
	}
	if found := a.probe(&e.Task); found != "" {
		why += "; now: " + found
	}
	a.endEntry(e, handlerResult{err: taskcatalog.Errorf(taskcatalog.CodeInterrupted, "%s", why)}, taskcatalog.OutcomeInterrupted)
}

// endLost ends an accepted task that may have run before the ledger was restored from a copy, and
// then returns true. If the question cannot be answered, endLost returns true as well: the task
// does not start, and the broker delivers the task again.
func (a *Agent) endLost(taskID string) bool {
	e, _, err := a.ledger.Get(taskID)
	may := false
	if err == nil {
		may, err = a.ledger.MayHaveRun(&e.Task, e.Attempt)
	}
	if err == nil && may {
		e.StartedAt = a.Now()
		err = a.ledger.Start(taskID, e.StartedAt)
	}
	switch {
	case err != nil:
		a.Log.Error("cannot tell whether a task ran before", zap.String("task", taskID), zap.Error(err))
		return true
	case may:
		a.endStarted(e,
			"the task may have run: a version of the agent that was rolled back accepted tasks, and damaged the ledger that recorded them")
	}
	return may
}

// endCompleted ends a task whose handler can show that the work was complete, although no result
// was recorded. endCompleted returns true if the task is ended.
func (a *Agent) endCompleted(e ledger.Entry) bool {
	handler, ok := a.Handlers(e.Task.Type, e.Task.Version)
	if !ok || handler.Completed == nil {
		return false
	}
	result, report, made := handler.Completed(a.host, &e.Task)
	if made {
		a.endEntry(e, handlerResult{result: result, report: report}, taskcatalog.OutcomeSucceeded)
	}
	return made
}

// endEntry records the result of a task that has no run in this process.
func (a *Agent) endEntry(e ledger.Entry, ret handlerResult, outcome taskcatalog.Outcome) {
	typ, err := taskcatalog.Lookup(e.Task.Type, e.Task.Version)
	if err != nil {
		typ = taskcatalog.Type{Name: e.Task.Type, Version: e.Task.Version} // from an older or newer agent
	}
	r := &run{task: &e.Task, typ: typ, digest: e.Digest, started: e.StartedAt}
	result := a.compose(r, ret, outcome)
	if err := a.ledger.Finish(e.Task.TaskID, result, false, a.Now()); err != nil {
		a.logTask(&e.Task).Error("cannot record how the task ended", zap.Error(err))
		return
	}
	a.logTask(&e.Task).Warn("ended a task of an earlier run: "+result.Message, zap.String("outcome", string(outcome)))
	wake(a.results)
}

// probe asks the handler for the present state. The probe may fail in every way: the task crashed
// this agent once already.
func (a *Agent) probe(t *taskcatalog.Task) (found string) {
	handler, ok := a.Handlers(t.Type, t.Version)
	if !ok || handler.Probe == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	out := make(chan string, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				out <- fmt.Sprintf("the probe panicked: %v", p)
			}
		}()
		out <- handler.Probe(ctx, a.host, t)
	}()
	select {
	case found = <-out:
		return taskcatalog.Clean(found, taskcatalog.MaxText/2)
	case <-ctx.Done():
		return "the probe did not answer within " + probeTime.String()
	}
}
