package taskqueue_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog"
)

// interrupted is a task cut off by its agent's end.
func (w *world) interrupted(n node) broker.Task {
	w.t.Helper()
	k := w.enqueue(n, "node.drain", `{"grace_seconds":7}`)
	d := w.fetch(n)[0]
	ev := w.evidence(n, d, taskcatalog.OutcomeInterrupted, "")
	ev.Code = taskcatalog.CodeInterrupted
	_, err := w.queue.Result(ctx, n.Peer, k.ID, w.answer(n, d, ev, ""))
	w.ok(err)
	return w.expect(k.ID, broker.TaskFailed, taskcatalog.CodeInterrupted)
}

// probed has the node answer a probe of a task.
func (w *world) probed(n node, k broker.Task, says string) {
	w.t.Helper()
	p, err := w.queue.Probe(ctx, operator, k.ID)
	w.ok(err)
	d := w.fetch(n)[0]
	if d.TaskID != p.ID || p.Type != "node.task_probe" {
		w.t.Fatalf("the node got %s, and %+v was asked for", d.TaskID, p)
	}
	w.succeed(n, d, says)
}

const notDone = `{"known":true,"state":"finished","running":false,"outcome":"interrupted","reported":true,"found":"the node is not marked as drained"}`

func TestAnInterruptedTaskIsDoneAgainOnceWhenAProbeShowsThatItWasNot(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k := w.interrupted(n)
		_, err := w.queue.Recover(ctx, operator, k.ID)
		w.refused(err, "probe_missing")
		w.probed(n, k, notDone)
		again, err := w.queue.Recover(ctx, operator, k.ID)
		w.ok(err)
		if again.RetryOf != k.ID || again.Type != k.Type || string(again.Params) != `{"grace_seconds":7}` || again.ID == k.ID {
			w.t.Fatalf("%+v", again)
		}
		same, err := w.queue.Recover(ctx, operator, k.ID)
		if err != nil || same.ID != again.ID {
			w.t.Errorf("a second recovery is %s (%v), not %s", same.ID, err, again.ID)
		}
		if d := w.fetch(n); len(d) != 1 || d[0].TaskID != again.ID {
			w.t.Errorf("the node gets %+v", d)
		}
	})
}

func TestATaskThatRunsOrWasDoneIsNotDoneAgain(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k := w.interrupted(n)
		w.probed(n, k, `{"known":true,"state":"started","running":true,"reported":false}`)
		_, err := w.queue.Recover(ctx, operator, k.ID)
		w.refused(err, "task_running")
		w.probed(n, k, `{"known":true,"state":"finished","running":false,"outcome":"succeeded","reported":true}`)
		_, err = w.queue.Recover(ctx, operator, k.ID)
		w.refused(err, "task_done")
	})
}

func TestWhatIsNotAmbiguousIsNotRecovered(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		open := w.enqueue(n, "node.drain", "")
		_, err := w.queue.Probe(ctx, operator, open.ID)
		w.refused(err, "task_not_delivered")
		_, err = w.queue.Recover(ctx, operator, open.ID)
		w.refused(err, "task_not_ambiguous")
		w.succeed(n, w.fetch(n)[0], `{"drained":true,"sessions_ended":0,"processes_stopped":0}`)
		_, err = w.queue.Recover(ctx, operator, open.ID)
		w.refused(err, "task_not_ambiguous")
		_, err = w.queue.Recover(ctx, operator, "t-none")
		w.refused(err, "task_not_found")

		k, _, err := w.queue.Enqueue(ctx, broker.Actor{Name: "system"}, taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.heartbeat_check", CorrelationID: "r-1"})
		w.ok(err)
		w.fetch(n)
		w.clock.Advance(time.Hour)
		w.sweep()
		w.expect(k.ID, broker.TaskFailed, taskcatalog.CodeOutcomeUnknown)
		_, err = w.queue.Recover(ctx, operator, k.ID)
		w.refused(err, "task_of_run")
	})
}

func TestAnOldProbeAndAnOldTaskDoNotCount(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k := w.interrupted(n)
		// A probe that names another task, under this task's correlation.
		other, _, err := w.queue.Enqueue(ctx, operator, taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.task_probe", Params: []byte(`{"task_id":"t-other"}`), CorrelationID: "probe-of-" + k.ID})
		w.ok(err)
		d := w.fetch(n)[0]
		if d.TaskID != other.ID {
			w.t.Fatal(d)
		}
		w.succeed(n, d, notDone)
		_, err = w.queue.Recover(ctx, operator, k.ID)
		w.refused(err, "probe_missing")
		w.clock.Advance(time.Second)
		w.probed(n, k, notDone)
		w.clock.Advance(15*time.Minute + time.Second)
		_, err = w.queue.Recover(ctx, operator, k.ID)
		w.refused(err, "probe_missing")
		w.clock.Advance(24 * time.Hour)
		_, err = w.queue.Recover(ctx, operator, k.ID)
		w.refused(err, "task_too_old")
	})
}
