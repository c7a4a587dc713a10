package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/inbox"
	"github.com/hostler/hostler/agent/ledger"
	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// Causes of a task context's end.
var (
	errCanceled = errors.New("canceled by the broker")
	errDeadline = errors.New("the deadline is over")
)

// run is a single task between its acceptance and its recorded result.
type run struct {
	task    *taskcatalog.Task
	typ     taskcatalog.Type
	params  any
	digest  string
	attempt atomic.Int64
	cancel  context.CancelCauseFunc
	resumed bool          // begun by an earlier start of the agent
	outside bool          // resumed, and the work goes on outside this agent
	started time.Time     // zero: waits for its lane; changed under Agent.mu
	done    chan struct{} // closed once the run has ended
	progress
}

// handlerResult is the result of a handler.
type handlerResult struct {
	result any
	report taskcatalog.Report
	err    error
}

// launch begins an accepted task. The task runs as soon as its lane has a place.
func (a *Agent) launch(work context.Context, admitted *inbox.Admitted, attempt int) {
	ctx, cancel := context.WithCancelCause(work)
	r := &run{
		task: admitted.Task, typ: admitted.Type, params: admitted.Params, digest: admitted.Digest, cancel: cancel,
		done: make(chan struct{}), progress: newProgress(a.Now()),
	}
	a.runTask(ctx, r, attempt)
}

// resume goes on with a task begun by an earlier start of the agent. It returns false if the task
// cannot be resumed: its type has no Resume, or this agent does not know the type or its params.
func (a *Agent) resume(e ledger.Entry) bool {
	handler, ok := a.Handlers(e.Task.Type, e.Task.Version)
	if !ok || handler.Resume == nil {
		return false
	}
	typ, err := taskcatalog.Lookup(e.Task.Type, e.Task.Version)
	if err != nil {
		return false
	}
	params, err := typ.DecodeParams(e.Task.Params)
	if err != nil {
		return false
	}
	ctx, stop := context.WithCancelCause(a.working)
	cancel := stop
	if !handler.Inside { // a cancel cannot stop work that goes on outside this agent
		cancel = func(why error) {
			if !errors.Is(why, errCanceled) {
				stop(why)
			}
		}
	}
	a.runTask(ctx, &run{
		task: &e.Task, typ: typ, params: params, digest: e.Digest, cancel: cancel, done: make(chan struct{}),
		started: e.StartedAt, resumed: true, outside: !handler.Inside, progress: newProgress(a.Now()),
	}, e.Attempt)
	return true
}

// runTask executes a task in its lane, up to its recorded result.
func (a *Agent) runTask(ctx context.Context, r *run, attempt int) {
	r.attempt.Store(int64(attempt))
	a.mu.Lock()
	a.running[r.task.TaskID] = r
	a.mu.Unlock()
	a.publish(func(*Status) {})
	a.work.Go(func() {
		defer a.ended(r)
		defer r.cancel(nil)
		defer a.reportProgress(r)()
		a.execute(ctx, r)
	})
}

// ended removes the run, so that its lane counts as free for the next poll.
func (a *Agent) ended(r *run) {
	a.mu.Lock()
	delete(a.running, r.task.TaskID)
	a.mu.Unlock()
	close(r.done)
	wake(a.freed)
	wake(a.results)
	a.publish(func(*Status) {})
}

// execute takes a task from its lane's queue to its recorded result.
func (a *Agent) execute(ctx context.Context, r *run) {
	log := a.logTask(r.task)
	if err := a.lanes.enter(ctx, r.typ.Lane); err != nil {
		if errors.Is(err, errCanceled) {
			err = taskcatalog.Errorf(taskcatalog.CodeCanceled, "%s was canceled before it started", r.typ.ID())
			a.finish(ctx, r, a.compose(r, handlerResult{err: err}, taskcatalog.OutcomeCanceled))
		}
		return // stopped before it began: the broker delivers it again
	}
	defer a.lanes.leave(r.typ.Lane)
	if !r.resumed && !a.start(ctx, r) {
		return
	}
	limit := r.typ.Limit(r.params)
	if r.resumed {
		log.Info("a task continues that the agent's previous process began")
	} else {
		log.Info("the task runs")
	}
	if !r.outside {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit-a.spent(r), errDeadline)
		defer cancel()
	}
	ret, ok := a.do(ctx, r)
	if !ok || errors.Is(ret.err, host.ErrStuck) {
		log.Error("the task does not stop; the agent exits, and its next start resumes the task or reports it as interrupted")
		a.fatal(taskcatalog.Errorf(taskcatalog.CodeDeadlineExceeded, "task %s still runs %s after it was told to stop; the agent restarts",
			r.task.TaskID, stopGrace))
		return
	}
	if errors.Is(ret.err, selfupdate.ErrUndecided) || errors.Is(ret.err, host.ErrUnfinished) {
		log.Info("the task continues without this process; the agent's next start reports the outcome")
		return
	}
	outcome, err := outcomeOf(ctx, r.typ, limit, ret.err)
	ret.err = err
	result := a.compose(r, ret, outcome)
	log.Info("the task ended", zap.String("outcome", string(result.Outcome)), zap.String("code", string(result.Code)),
		zap.String("message", result.Message), zap.Duration("took", a.Now().Sub(r.started)))
	a.finish(ctx, r, result)
	wake(a.results)
	if r.typ.Class != taskcatalog.ClassProbe && ctx.Err() == nil {
		a.gatherFacts(ctx) // still in the lane, so that no other task uses the GPUs
	}
}

// spent returns how much of its time a resumed task has used. A clock that was set back gives it no
// more time than a new task has.
func (a *Agent) spent(r *run) time.Duration {
	if !r.resumed {
		return 0
	}
	return max(a.Now().Sub(r.started), 0)
}

// start records that a task begins, if the task may still start.
func (a *Agent) start(ctx context.Context, r *run) bool {
	if err := a.inbox.Startable(r.task, r.typ, r.params); err != nil {
		a.finish(ctx, r, a.compose(r, handlerResult{err: err}, taskcatalog.OutcomeRefused))
		return false
	}
	a.mu.Lock()
	r.started = a.Now()
	a.mu.Unlock()
	if err := a.ledger.Start(r.task.TaskID, r.started); err != nil {
		a.refuse(wire.Delivery{TaskID: r.task.TaskID, Attempt: int(r.attempt.Load())}, r.digest,
			&inbox.Refusal{Code: taskcatalog.CodeOf(err, taskcatalog.CodeLedgerUnavailable), Message: err.Error()})
		return false
	}
	a.at("after start", r.task.TaskID)
	return true
}

// do calls the handler. It returns false if the handler went on past the end of ctx and the grace.
func (a *Agent) do(ctx context.Context, r *run) (handlerResult, bool) {
	handler, _ := a.Handlers(r.typ.Name, r.typ.Version)
	out := make(chan handlerResult, 1)
	go func() {
		var ret handlerResult
		defer func() {
			if p := recover(); p != nil {
				a.logTask(r.task).Error("the handler panicked", zap.String("panic", fmt.Sprint(p)), zap.ByteString("stack", debug.Stack()))
				ret = handlerResult{err: taskcatalog.Errorf(taskcatalog.CodeHandlerPanicked,
					"the handler of %s panicked (see the node's journal)", r.typ.ID())}
			}
			out <- ret
		}()
		carryOut := handler.Do
		if r.resumed {
			carryOut = handler.Resume
		}
		ret.result, ret.report, ret.err = carryOut(ctx, &host.Run{
			Task: r.task, Params: r.params, Host: a.host, Progress: r.set, Mint: a.mintFor(r), MintStep: a.mintStep(r), Began: r.started,
		})
	}()
	select {
	case ret := <-out:
		return ret, true
	case <-ctx.Done():
	}
	// A handler can block in the kernel on a FUSE file system that never answers. Such a handler
	// does not stop, and even a restart of the agent would not end it; aborting the FUSE connection
	// does.
	for _, last := range []func(){a.abortStuck, func() {}} {
		grace := time.NewTimer(stopGrace / 2)
		select {
		case ret := <-out:
			grace.Stop()
			return ret, true
		case <-grace.C:
			last()
		}
	}
	return handlerResult{}, false
}

func (a *Agent) abortStuck() {
	aborted, err := a.Machine.AbortStuckFUSE()
	if len(aborted) > 0 || err != nil {
		a.Log.Warn("a task does not stop; the agent aborted the FUSE connections that do not answer", zap.Strings("connections", aborted),
			zap.Error(err))
	}
}

// outcomeOf returns how a run ended, with an error whose code gives the reason. Work that was done
// is reported as done, whatever was asked meanwhile.
func outcomeOf(ctx context.Context, typ taskcatalog.Type, limit time.Duration, err error) (taskcatalog.Outcome, error) {
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return taskcatalog.OutcomeSucceeded, nil
	case taskcatalog.CodeOf(err, "") == taskcatalog.CodeHandlerPanicked:
		return taskcatalog.OutcomeFailed, err
	case errors.Is(cause, errCanceled):
		return taskcatalog.OutcomeCanceled, taskcatalog.Errorf(taskcatalog.CodeCanceled, "%s was canceled: %v", typ.ID(), err)
	case errors.Is(cause, host.ErrStopping):
		return taskcatalog.OutcomeInterrupted, taskcatalog.Errorf(taskcatalog.CodeInterrupted,
			"%s was interrupted because the agent stopped: %v", typ.ID(), err)
	case errors.Is(cause, errDeadline):
		return taskcatalog.OutcomeFailed, taskcatalog.Errorf(taskcatalog.CodeDeadlineExceeded, "%s did not end within %s: %v", typ.ID(),
			limit, err)
	}
	return taskcatalog.OutcomeFailed, err
}

// finish writes the result to disk before the result is reported. The space is reserved. If the
// disk still refuses, finish retries, and the lease is held meanwhile.
func (a *Agent) finish(ctx context.Context, r *run, result wire.ResultRequest) {
	a.at("before finish", r.task.TaskID)
	defer a.at("after finish", r.task.TaskID)
	handler, _ := a.Handlers(r.typ.Name, r.typ.Version)
	after := handler.After != nil && result.Outcome == taskcatalog.OutcomeSucceeded
	pause := backoff.NewExponentialBackOff()
	for {
		err := a.ledger.Finish(r.task.TaskID, result, after, a.Now())
		if err == nil || taskcatalog.CodeOf(err, "") == taskcatalog.CodeReplayed {
			return
		}
		a.logTask(r.task).Error("cannot record how the task ended", zap.Error(err))
		// A stopped agent gives up: the next start reports what the ledger has recorded.
		if errors.Is(context.Cause(ctx), host.ErrStopping) || sleep(context.WithoutCancel(ctx), pause.NextBackOff()) != nil {
			return
		}
	}
}

// cancelTasks cancels the tasks named by the broker. A cancel is not signed: it can only stop a
// task.
func (a *Agent) cancelTasks(ids []string) {
	for _, id := range ids {
		a.mu.Lock()
		r := a.running[id]
		a.mu.Unlock()
		if r != nil {
			a.logTask(r.task).Info("canceling the task")
			r.cancel(errCanceled)
		}
	}
}
