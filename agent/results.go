package agent

import (
	"context"
	"maps"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/ledger"
	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// resultRetryLimit is how long a result is sent to a broker that refuses it each time. With a
// broker that does not answer the agent never gives up.
const resultRetryLimit = 7 * 24 * time.Hour

// sendResults sends unreported results until the broker has acknowledged them: at once, and after
// each failure with backoff.
func (a *Agent) sendResults(ctx context.Context) error {
	pause := uplink.NewPause()
	for {
		var wait <-chan time.Time
		if err := a.sendAll(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			again := time.NewTimer(pause.After(err))
			defer again.Stop()
			wait = again.C
			a.Log.Warn("cannot report results; the agent tries again", zap.Error(err))
		} else {
			pause.Reset()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.results:
		case <-wait:
		}
	}
}

// sendAll sends each result once and returns the last failure.
func (a *Agent) sendAll(ctx context.Context) error {
	failed := a.sendRefusals(ctx)
	waiting, err := a.ledger.Unreported()
	if err != nil {
		return err
	}
	m := a.state.Member()
	if m == nil {
		return failed
	}
	for _, e := range waiting {
		if e.Task.NodeEpoch != m.Epoch {
			a.settle(ctx, e, "the node has enrolled again since, and the broker has ended the task")
			continue
		}
		if e.Attempt == 0 {
			// The enrolment's answer carried this task: the broker accepts the result only after it
			// has delivered the task.
			if a.Now().After(e.Task.NotAfter.Add(2 * taskcatalog.ClockSkew)) {
				a.settle(ctx, e, "the broker never delivered this task, which its answer to the enrolment carried")
			}
			continue
		}
		client, err := a.uplink()
		if err != nil {
			return err
		}
		if a.state.Member() != m { // enrolled again, or a new key: results are evaluated again
			wake(a.results)
			return failed
		}
		result := e.Result
		if e.ResultDropped() {
			result = a.lostResult(&e)
		}
		result.Attempt, result.Evidence = e.Attempt, a.withCurrentKey(result.Evidence, m)
		_, err = client.Result(ctx, e.Task.TaskID, result)
		a.at("after report", e.Task.TaskID)
		r, refused := uplink.RefusalOf(err)
		switch {
		case err == nil:
			a.settle(ctx, e, "")
		case refused && r.Permanent() && !refusedMember(err):
			if a.Now().Sub(e.FinishedAt) > resultRetryLimit {
				a.settle(ctx, e, "the broker refuses the result: "+r.Detail)
				continue
			}
			failed = err // failure of this result only; the others are still sent
		default:
			return err
		}
	}
	return failed
}

// lostResult is the result for a broker that has lost a result reported before. The success can no
// longer be shown.
func (a *Agent) lostResult(e *ledger.Entry) wire.ResultRequest {
	return a.compose(&run{task: &e.Task, digest: e.Digest, started: e.StartedAt},
		handlerResult{err: taskcatalog.Errorf(taskcatalog.CodeInterrupted,
			"the task succeeded and its result was reported before; the result was too large for the ledger (run a new task)")}, taskcatalog.OutcomeInterrupted)
}

// settle records that a result needs no more sending, and then calls the handler's After if it is
// due.
func (a *Agent) settle(ctx context.Context, e ledger.Entry, lost string) {
	log := a.logTask(&e.Task)
	if lost != "" {
		log.Error("a result is not reported: "+lost, zap.String("outcome", string(e.Result.Outcome)))
	}
	if err := a.ledger.Reported(e.Task.TaskID); err != nil {
		log.Error("cannot record that the result was reported", zap.Error(err))
		return
	}
	if lost == "" {
		log.Info("the broker has the result", zap.String("outcome", string(e.Result.Outcome)))
	}
	if e.After {
		a.after(ctx, e)
	}
}

// after calls the handler's After once the result needs no more sending. From then on the agent
// takes no further tasks from the broker, unless After fails.
func (a *Agent) after(ctx context.Context, e ledger.Entry) {
	handler, ok := a.Handlers(e.Task.Type, e.Task.Version)
	if !ok || handler.After == nil {
		return
	}
	a.ending.Store(true)
	log := a.logTask(&e.Task)
	if err := handler.After(ctx, a.host); err != nil {
		a.ending.Store(false)
		log.Error("cannot finish the work that follows the task; the agent's next start tries again", zap.Error(err))
		return
	}
	if err := a.ledger.AfterDone(e.Task.TaskID); err != nil {
		log.Warn("cannot record that the work that follows the task is done", zap.Error(err))
	}
}

// sendRefusals sends the refusals that are not in the ledger. A refusal rejected by the broker is
// dropped: its envelope was not for this node.
func (a *Agent) sendRefusals(ctx context.Context) error {
	a.mu.Lock()
	waiting := maps.Clone(a.refusals)
	a.mu.Unlock()
	for id, result := range waiting {
		client, err := a.uplink()
		if err != nil {
			return err
		}
		_, err = client.Result(ctx, id, result)
		// A redirect is not followed: it means that the task id does not fit into a path.
		if answer, ok := uplink.RefusalOf(err); err != nil && (!ok || !answer.Permanent() && answer.Status >= http.StatusBadRequest) {
			return err
		}
		a.mu.Lock()
		delete(a.refusals, id)
		a.mu.Unlock()
	}
	return nil
}

// expireAccepted ends tasks that were accepted, never started, and can no longer start. The broker
// learns from their result that nothing was done.
func (a *Agent) expireAccepted() {
	if a.state.Member() == nil {
		return // no identity to report with
	}
	late, err := a.ledger.Open(func(e *ledger.Entry) bool {
		return e.State == ledger.Accepted && a.Now().After(e.Task.NotAfter.Add(2*taskcatalog.ClockSkew))
	})
	if err != nil {
		a.Log.Error("cannot read the ledger", zap.Error(err))
		return
	}
	for _, e := range late {
		a.mu.Lock()
		waits := a.running[e.Task.TaskID] != nil
		a.mu.Unlock()
		if !waits && !a.endLost(e.Task.TaskID) {
			a.endEntry(e,
				handlerResult{err: taskcatalog.Errorf(taskcatalog.CodeTaskExpired, "task %s was accepted and never started",
					e.Task.TaskID)}, taskcatalog.OutcomeRefused)
		}
	}
}
