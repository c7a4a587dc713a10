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

// deliver handles a single delivery: it starts the task, reports the recorded result again, or
// refuses the task. work is the context of running tasks.
func (a *Agent) deliver(work context.Context, d wire.Delivery) {
	raw := []byte(d.Envelope)
	if a.handleRedelivery(d, pki.Digest(raw)) {
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

// takeCarried handles the task carried by the enrolment's answer as if a poll had delivered it. It
// waits up to a minute for the task to end, so that the task's changes are in force for the first
// polled task. The task has no attempt yet: its result is sent once the broker has delivered the
// task.
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

// handleRedelivery handles an envelope that was accepted before, byte for byte. The envelope passed
// its checks, so the recorded result stands, even if the task could no longer start. A task that
// was accepted and never started goes through the checks again.
func (a *Agent) handleRedelivery(d wire.Delivery, digest string) bool {
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
	a.logTask(&e.Task).Info("the task was delivered again; it does not run again", zap.Int("attempt", d.Attempt),
		zap.String("state", string(e.State)))
	wake(a.results)
	return true
}

// known answers the inbox: was this task id taken before?
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

// maxRefusals bounds the refusals kept in memory, for envelopes that leave no entry in the ledger;
// otherwise anyone who controls the broker could fill the memory. A refusal beyond the bound is not
// sent: the broker delivers the task again when the lease has run out, and the agent refuses it
// again.
const maxRefusals = 64

func (a *Agent) refuse(d wire.Delivery, digest string, why *inbox.Refusal) {
	id := taskcatalog.Clean(d.TaskID, 80)
	a.Log.Warn("refused a task: "+why.Message, zap.String("who", "broker"), zap.String("node", a.nodeID()), zap.String("task", id),
		zap.String("code", string(why.Code)))
	result := wire.ResultRequest{
		Attempt: d.Attempt, Outcome: taskcatalog.OutcomeRefused, Code: why.Code,
		Message: taskcatalog.Clean(why.Message, taskcatalog.MaxText),
	}
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

// logTask returns the log with the fields of a task. The requester ("who") is the broker.
func (a *Agent) logTask(t *taskcatalog.Task) *zap.Logger {
	return a.Log.With(zap.String("who", "broker"), zap.String("node", a.nodeID()), zap.String("task", t.TaskID),
		zap.String("type", taskcatalog.Clean(t.Type, 64)), zap.String("correlation", taskcatalog.Clean(t.CorrelationID, 64)))
}
