package taskqueue_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

const drainedResult = `{"drained":true,"sessions_ended":0,"processes_stopped":0}`

// givenUp is a delivered task without any report from its node, with its delivery.
func (w *world) givenUp(n node) (broker.Task, wire.Delivery) {
	w.t.Helper()
	k := w.enqueue(n, "node.drain", `{"grace_seconds":7}`)
	d := w.fetch(n)[0]
	w.clock.Advance(2 * time.Hour)
	w.sweep()
	return w.expect(k.ID, broker.TaskFailed, taskcatalog.CodeOutcomeUnknown), d
}

func (w *world) audited(action, subject string) int {
	w.t.Helper()
	rows, err := w.db.ListAudit(ctx, store.AuditFilter{Action: action, Subject: subject})
	w.ok(err)
	return len(rows)
}

func (w *world) heard(n node) {
	w.t.Helper()
	w.ok(w.db.TouchNodes(ctx, map[string]time.Time{n.Peer.NodeID: w.db.Now()}))
}

func TestWhatANodeSaysOfATaskThatWasGivenUpIsKeptBesideItsEnd(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k, d := w.givenUp(n)
		w.clock.Advance(time.Minute)
		reply := w.succeed(n, d, drainedResult)
		if !reply.Repeat || reply.Status != string(broker.TaskFailed) || reply.Code != taskcatalog.CodeOutcomeUnknown {
			w.t.Errorf("the node is told %+v", reply)
		}
		k = w.expect(k.ID, broker.TaskFailed, taskcatalog.CodeOutcomeUnknown)
		if k.Late == nil || k.Late.Outcome != taskcatalog.OutcomeSucceeded || k.Late.Probe || !k.Late.At.Equal(w.db.Now()) {
			w.t.Fatalf("what came late is %+v", k.Late)
		}
		if got := w.audited("task.late_result", "task/"+k.ID); got != 1 {
			w.t.Errorf("it is %d times in the audit log", got)
		}
		_, err := w.queue.Recover(ctx, operator, k.ID)
		w.refused(err, "task_done")

		// The first report stands here as well.
		ev := w.evidence(n, d, taskcatalog.OutcomeInterrupted, "")
		ev.Code = taskcatalog.CodeInterrupted
		_, err = w.queue.Result(ctx, n.Peer, k.ID, w.answer(n, d, ev, ""))
		w.ok(err)
		if k = w.task(k.ID); k.Late.Outcome != taskcatalog.OutcomeSucceeded || w.audited("task.late_result", "task/"+k.ID) != 1 {
			w.t.Errorf("a second word made it %+v", k.Late)
		}
	})
}

func TestNobodyElseHasAWordOnATaskThatWasGivenUp(t *testing.T) {
	each(t, func(w *world) {
		n, other := w.active("one"), w.active("two")
		k, d := w.givenUp(n)
		good := w.answer(n, d, w.evidence(n, d, taskcatalog.OutcomeSucceeded, drainedResult), drainedResult)
		_, err := w.queue.Result(ctx, other.Peer, k.ID, good)
		w.refused(err, "task_not_found")
		another := n.Peer
		another.Epoch++
		_, err = w.queue.Result(ctx, another, k.ID, good)
		w.ok(err)
		for _, bad := range []wire.ResultRequest{
			{Attempt: d.Attempt, Outcome: "done"},
			{Attempt: d.Attempt, Outcome: taskcatalog.OutcomeRefused, Code: "A\x1b[31m"},
			{Attempt: d.Attempt + 1, Outcome: taskcatalog.OutcomeRefused, Code: "no"},
			{Attempt: d.Attempt, Outcome: taskcatalog.OutcomeSucceeded, Result: []byte(drainedResult)}, // unsigned
		} {
			_, err := w.queue.Result(ctx, n.Peer, k.ID, bad)
			w.ok(err) // the node can stop sending
		}
		if k = w.task(k.ID); k.Late != nil {
			w.t.Errorf("what is kept is %+v", k.Late)
		}
	})
}

func TestANodeThatIsHeardAgainIsAskedOnceWhatBecameOfATask(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k, _ := w.givenUp(n)
		w.ok(w.queue.ProbeUnknown(ctx))
		if got := w.fetch(n); len(got) != 0 {
			w.t.Fatalf("a node that was not heard since is asked %+v", got)
		}
		w.clock.Advance(time.Minute)
		w.heard(n)
		for range 3 {
			w.ok(w.queue.ProbeUnknown(ctx))
		}
		asked := w.fetch(n)
		if len(asked) != 1 || w.opened(asked[0]).Type != "node.task_probe" {
			w.t.Fatalf("the node is asked %+v", asked)
		}
		w.succeed(n, asked[0], `{"known":true,"state":"started","running":true,"reported":false,"found":"it is at it"}`)
		if k = w.task(k.ID); k.Late == nil || !k.Late.Probe || !k.Late.Running || k.Late.Message != "it is at it" {
			w.t.Errorf("what is kept is %+v", k.Late)
		}
		w.ok(w.queue.ProbeUnknown(ctx))
		if got := w.fetch(n); len(got) != 0 {
			w.t.Errorf("it is asked again: %+v", got)
		}
	})
}

// A node's own result goes before a probe's finding.
func TestAResultThatComesLateReplacesWhatAProbeFound(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k, d := w.givenUp(n)
		w.probed(n, k, `{"known":true,"state":"started","running":true,"reported":false}`)
		w.succeed(n, d, drainedResult)
		if k = w.task(k.ID); k.Late == nil || k.Late.Probe || k.Late.Outcome != taskcatalog.OutcomeSucceeded {
			w.t.Errorf("what is kept is %+v", k.Late)
		}
		w.probed(n, k, notDone)
		if k = w.task(k.ID); k.Late.Probe {
			w.t.Errorf("a probe made it %+v", k.Late)
		}
	})
}

func TestWhatIsOldOrChangesNothingIsNotAskedAbout(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		w.givenUp(n)
		w.clock.Advance(store.ProbeWithin + time.Minute)
		w.heard(n)
		w.enqueue(n, "node.heartbeat_check", "")
		w.fetch(n)
		w.clock.Advance(time.Hour)
		w.sweep()
		w.clock.Advance(time.Minute)
		w.heard(n)
		w.ok(w.queue.ProbeUnknown(ctx))
		if got := w.fetch(n); len(got) != 0 {
			w.t.Errorf("the node is asked %+v", got)
		}
	})
}

// Nodes that cannot be asked, because their agents do not know the task, delay no other nodes.
func TestThoseThatCannotBeAskedLeaveRoomForOthers(t *testing.T) {
	each(t, func(w *world) {
		var all []node
		for _, name := range []string{"old-1", "old-2", "old-3", "new"} {
			all = append(all, w.active(name))
			last := all[len(all)-1]
			w.enqueue(last, "node.drain", `{"grace_seconds":7}`)
			w.fetch(last)
			if name != "new" {
				storetest.Report(w.t, w.db, last.Peer.NodeID, store.NodeReport{AgentVersion: "0.9", TaskTypes: []string{"node.drain@1"}, Digest: "d0"})
			}
			w.clock.Advance(time.Second)
		}
		w.clock.Advance(2 * time.Hour)
		w.sweep()
		w.clock.Advance(time.Minute)
		for _, n := range all {
			w.heard(n)
		}
		first, last := all[0], all[3]
		for range 2 { // two at a time: the refused nodes are the oldest
			w.ok(w.queue.ProbeUnknownAtMost(ctx, 2))
		}
		if got := w.fetch(last); len(got) != 1 || w.opened(got[0]).Type != "node.task_probe" {
			w.t.Errorf("the node behind them is asked %+v", got)
		}
		// An updated agent is asked after all.
		storetest.Report(w.t, w.db, first.Peer.NodeID, store.NodeReport{AgentVersion: "1.0", TaskTypes: taskcatalog.IDs(), Digest: "d1"})
		for range 3 {
			w.ok(w.queue.ProbeUnknownAtMost(ctx, 2))
		}
		if got := w.fetch(first); len(got) != 1 {
			w.t.Errorf("one that can be asked by now is asked %+v", got)
		}
	})
}
