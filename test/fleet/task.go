package fleet

import (
	"context"
	"errors"
	"time"

	"github.com/hostler/hostler/agent/inbox"
	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// codeScripted is the failure code of a task that the script fails.
const codeScripted taskcatalog.Code = "scripted_failure"

// entry is a node's record of a task, kept over crashes.
type entry struct {
	admitted *inbox.Admitted
	attempt  int
	started  time.Time
	result   *wire.ResultRequest // nil: the task has not ended
	told     bool                // the broker has the result
	silent   bool
}

func (n *node) entry(taskID string) *entry {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ledger[taskID]
}

// deliver handles a delivery: a new task begins, a known task's result is sent again.
func (n *node) deliver(ctx context.Context, d wire.Delivery) {
	if e := n.entry(d.TaskID); e != nil && e.admitted.Digest == pki.Digest([]byte(d.Envelope)) {
		n.mu.Lock()
		e.attempt, e.told = d.Attempt, false
		ended := e.result != nil
		n.mu.Unlock()
		if ended {
			n.fleet.work.Go(func() { n.report(ctx, e) })
		}
		return
	}
	admitted, refusal := n.inbox.Admit([]byte(d.Envelope), d.TaskID)
	if refusal != nil {
		n.fleet.counts.refused.Add(1)
		_, err := n.uplink().Result(ctx, d.TaskID, wire.ResultRequest{
			Attempt: d.Attempt, Outcome: taskcatalog.OutcomeRefused, Code: refusal.Code, Message: refusal.Message,
		})
		if err != nil {
			n.fleet.wrong(err)
		}
		return
	}
	n.fleet.counts.accepted.Add(1)
	script := n.fleet.script.Load()
	act := script.Act(d.TaskID)
	e := &entry{admitted: admitted, attempt: d.Attempt, started: time.Now(), silent: act == Silent}
	n.mu.Lock()
	n.forget()
	n.ledger[d.TaskID] = e
	n.mu.Unlock()
	n.saw(e, Event{What: Started, Act: act})
	n.fleet.work.Go(func() { n.run(ctx, e, act, script.Takes) })
}

// remembered is the number of ended tasks that a node keeps.
const remembered = 64

// forget drops ended tasks if the ledger is large. The lock is held.
func (n *node) forget() {
	if len(n.ledger) < remembered {
		return
	}
	for id, e := range n.ledger {
		if e.told && time.Now().After(e.admitted.Task.NotAfter.Add(2*taskcatalog.ClockSkew)) {
			delete(n.ledger, id)
		}
	}
}

// run carries a task out as the script says.
func (n *node) run(ctx context.Context, e *entry, act Act, takes time.Duration) {
	if takes > 0 && !n.work(ctx, e, takes) {
		return
	}
	switch act {
	case Silent:
		return
	case Crash:
		n.mu.Lock()
		crash := n.crash
		n.mu.Unlock()
		crash()
		return
	case Fail:
		n.end(e, taskcatalog.OutcomeFailed, codeScripted, nil)
	default:
		result, err := handlers[e.admitted.Type.Name](n, e.admitted)
		if err != nil {
			n.end(e, taskcatalog.OutcomeFailed, taskcatalog.CodeOf(err, taskcatalog.CodeHandlerFailed), nil)
			break
		}
		n.end(e, taskcatalog.OutcomeSucceeded, "", result)
	}
	n.report(ctx, e)
	if act == Duplicate {
		n.report(ctx, e)
	}
}

// work spends the task's duration and renews the task's lease meanwhile.
func (n *node) work(ctx context.Context, e *entry, takes time.Duration) bool {
	for left := takes; left > 0; left -= wire.ProgressTick {
		if !sleep(ctx, min(left, wire.ProgressTick)) {
			return false
		}
		if left <= wire.ProgressTick {
			break
		}
		_, err := n.uplink().Progress(ctx, e.admitted.Task.TaskID, wire.ProgressRequest{
			Attempt: e.attempt, TotalSteps: 1, CurrentStepName: "work", StepStatus: "running", StepStartedAt: e.started.UTC(),
		})
		if err != nil && ctx.Err() == nil {
			n.fleet.wrong(err)
		}
	}
	return true
}

// end records a task's end, with evidence signed by the node's key.
func (n *node) end(e *entry, outcome taskcatalog.Outcome, code taskcatalog.Code, result any) {
	task, out := e.admitted.Task, wire.ResultRequest{Outcome: outcome, Code: code}
	ev := taskcatalog.Evidence{
		TaskID: task.TaskID, TaskDigest: e.admitted.Digest, NodeID: task.NodeID, NodeEpoch: task.NodeEpoch, BootID: "boot",
		Nonce:     task.Nonce,
		StartedAt: e.started.UTC(), FinishedAt: time.Now().UTC(), AgentVersion: version, Outcome: outcome, Code: code,
	}
	err := error(nil)
	if result != nil {
		if out.Result, err = taskcatalog.Encode(result); err == nil {
			ev.ResultDigest = pki.Digest(out.Result)
		}
	}
	envelope, signErr := pki.SignEvidence(ev, n.key)
	if err = errors.Join(err, signErr); err != nil {
		n.fleet.wrong(err)
		return
	}
	out.Evidence = string(envelope)
	n.mu.Lock()
	defer n.mu.Unlock()
	e.result = &out
}

// report sends a result until the broker accepts or refuses it.
func (n *node) report(ctx context.Context, e *entry) {
	id := e.admitted.Task.TaskID
	for pause := uplink.NewPause(); ctx.Err() == nil; {
		n.mu.Lock()
		again := e.told
		sent := *e.result
		sent.Attempt = e.attempt
		n.mu.Unlock()
		reply, err := n.uplink().Result(ctx, id, sent)
		refusal, answered := uplink.RefusalOf(err)
		switch {
		case err == nil && again:
			n.fleet.counts.repeated.Add(1)
		case err == nil:
			n.fleet.counts.ended.Add(1)
		case answered && refusal.Permanent():
			n.fleet.counts.unwelcome.Add(1)
		}
		if err == nil || answered && refusal.Permanent() {
			n.mu.Lock()
			e.told = true
			n.mu.Unlock()
			if err == nil {
				n.saw(e, Event{What: Reported, Outcome: string(reply.Outcome)})
			} else {
				n.saw(e, Event{What: Lost})
			}
			return
		}
		n.saw(e, Event{What: Lost})
		if ctx.Err() != nil {
			return
		}
		n.fleet.wrong(err)
		sleep(ctx, pause.After(err))
	}
}

// recover records the tasks that a crash interrupted, and sends the results that the broker does
// not have.
func (n *node) recover(ctx context.Context) {
	n.mu.Lock()
	var open []*entry
	for _, e := range n.ledger {
		if !e.told && !e.silent {
			open = append(open, e)
		}
	}
	n.mu.Unlock()
	for _, e := range open {
		if e.result == nil {
			n.end(e, taskcatalog.OutcomeInterrupted, taskcatalog.CodeInterrupted, nil)
		}
		n.fleet.work.Go(func() { n.report(ctx, e) })
	}
}

func (n *node) saw(e *entry, ev Event) {
	ev.NodeID, ev.TaskID, ev.Type = n.id.NodeID, e.admitted.Task.TaskID, e.admitted.Task.Type
	n.fleet.saw(ev)
}
