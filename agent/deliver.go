package agent

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/inbox"
	"github.com/hostler/hostler/agent/ledger"
	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// deliver takes one delivery: it starts the task, or says once more what became
// of it, or refuses it. work is the context of running tasks.
func (a *Agent) deliver(work context.Context, d wire.Delivery) {
	raw := []byte(d.Envelope)
	if a.again(d, pki.Digest(raw)) {
		return
	}
	admitted, refusal := a.inbox.Admit(raw, d.TaskID)
	if refusal != nil {
		a.refuse(d, pki.Digest(raw), refusal)
		return
	}
	a.at("before accept", d.TaskID)
	if err := a.ledger.Accept(*admitted.Task, admitted.Digest, d.Attempt, a.Now()); err != nil {
		a.refuse(d, admitted.Digest, &inbox.Refusal{Code: taskcatalog.CodeOf(err, taskcatalog.CodeLedgerUnavailable), Message: err.Error()})
		return
	}
	a.at("after accept", d.TaskID)
	if a.endLost(d.TaskID) {
		return
	}
	a.logTask(admitted.Task).Info("accepted the task", zap.Int("attempt", d.Attempt))
	a.launch(work, admitted, d.Attempt)
}

// takeCarried takes the task that the answer to the enrolment carried, as if a
// poll had brought it, and waits until it has ended, up to a minute: what it puts
// in force is there for the first that a poll brings. It has no attempt yet: its
// result is sent once the broker has delivered it.
func (a *Agent) takeCarried(ctx, work context.Context) {
	d := wire.Delivery{TaskID: a.carried.TaskID, Envelope: a.carried.Envelope}
	a.carried = nil
	a.deliver(work, d)
	a.state.DropCarried()
	a.mu.Lock()
	r := a.running[d.TaskID]
	a.mu.Unlock()
	if r == nil {
		return
	}
	long := time.NewTimer(uplink.LongPause)
	defer long.Stop()
	select {
	case <-r.done:
	case <-long.C:
	case <-ctx.Done():
	}
}

// again deals with an envelope that was accepted before, byte for byte: its
// checks are behind it and its recorded result stands, also when it could not
// start any more. What was accepted and never started goes through the checks
// again.
func (a *Agent) again(d wire.Delivery, digest string) bool {
	e, known, err := a.ledger.Get(d.TaskID)
	if err != nil || !known || e.Digest != digest {
		return false
	}
	a.mu.Lock()
	r := a.running[d.TaskID]
	a.mu.Unlock()
	if r == nil && e.State == ledger.Accepted {
		return false
	}
	if r != nil {
		r.attempt.Store(int64(d.Attempt))
	}
	if err := a.ledger.Delivered(d.TaskID, d.Attempt); err != nil {
		a.Log.Error("cannot record that a task was delivered again", zap.String("task", d.TaskID), zap.Error(err))
	}
	a.logTask(&e.Task).Info("the task was delivered again; it does not run again", zap.Int("attempt", d.Attempt), zap.String("state", string(e.State)))
	wake(a.results)
	return true
}

// known is the inbox's question whether a task id was taken before.
func (a *Agent) known(taskID, digest string) (bool, error) {
	e, known, err := a.ledger.Get(taskID)
	if err != nil || !known {
		return false, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	began := e.State != ledger.Accepted || a.running[taskID] != nil
	return began || e.Digest != digest, nil
}

// maxRefusals bounds what is remembered of envelopes that leave no mark in the
// ledger, as anyone who holds the broker could otherwise fill it. What is beyond it is
// delivered again when its lease has run out, and refused again.
const maxRefusals = 64

func (a *Agent) refuse(d wire.Delivery, digest string, why *inbox.Refusal) {
	id := taskcatalog.Clean(d.TaskID, 80)
	a.Log.Warn("refused a task: "+why.Message, zap.String("who", "broker"), zap.String("node", a.nodeID()), zap.String("task", id), zap.String("code", string(why.Code)))
	result := wire.ResultRequest{Attempt: d.Attempt, Outcome: taskcatalog.OutcomeRefused, Code: why.Code, Message: taskcatalog.Clean(why.Message, taskcatalog.MaxText)}
	if why.Task != nil {
		err := a.ledger.Refuse(*why.Task, digest, result, a.Now())
		if err == nil {
			wake(a.results)
			return
		}
		a.Log.Error("cannot record a refusal", zap.String("task", id), zap.Error(err))
	}
	a.mu.Lock()
	if len(a.refusals) < maxRefusals {
		a.refusals[d.TaskID] = result
	}
	a.mu.Unlock()
	wake(a.results)
}

func (a *Agent) nodeID() string {
	if m := a.state.Member(); m != nil {
		return m.NodeID
	}
	return ""
}

// logTask is the log with what names a task. The broker is who asked for it.
func (a *Agent) logTask(t *taskcatalog.Task) *zap.Logger {
	return a.Log.With(zap.String("who", "broker"), zap.String("node", a.nodeID()), zap.String("task", t.TaskID),
		zap.String("type", taskcatalog.Clean(t.Type, 64)), zap.String("correlation", taskcatalog.Clean(t.CorrelationID, 64)))
}
