package taskqueue_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

func (w *world) sweep() store.Swept {
	w.t.Helper()
	s, err := w.queue.Sweep(ctx)
	w.ok(err)
	return s
}

func (w *world) progress(n node, d wire.Delivery) wire.ProgressReply {
	w.t.Helper()
	r, err := w.queue.Progress(ctx, n.Peer, d.TaskID, wire.ProgressRequest{Attempt: d.Attempt, StepStatus: "running", CurrentStepName: "step", TotalSteps: 2})
	w.ok(err)
	return r
}

func (w *world) expect(id string, status broker.TaskStatus, code taskcatalog.Code) broker.Task {
	w.t.Helper()
	k := w.task(id)
	if k.Status != status || k.Code != code {
		w.t.Fatalf("the task is %s %q, want %s %q", k.Status, k.Code, status, code)
	}
	return k
}

func TestOneExclusiveTaskIsDispatchedAtATime(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		first := w.enqueue(n, "node.drain", "")
		second := w.enqueue(n, "node.drain", `{"resume":true}`)
		probe := w.enqueue(n, "node.heartbeat_check", "")
		d := w.fetch(n)
		if len(d) != 2 || d[0].TaskID != first.ID || d[1].TaskID != probe.ID {
			w.t.Fatalf("delivered %+v", d)
		}
		if more := w.fetch(n); len(more) != 0 {
			w.t.Fatalf("delivered beside it %+v", more)
		}
		w.succeed(n, d[0], `{"drained":true,"sessions_ended":0,"processes_stopped":0}`)
		if d := w.fetch(n); len(d) != 1 || d[0].TaskID != second.ID {
			w.t.Fatalf("delivered after it %+v", d)
		}
	})
}

func TestABusyNodeGetsOnlyItsFreeLanes(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		w.enqueue(n, "node.drain", "")
		probe := w.enqueue(n, "node.heartbeat_check", "")
		r, err := w.queue.Wait(ctx, n.Peer, []taskcatalog.Lane{taskcatalog.LaneConcurrent}, 0)
		w.ok(err)
		if len(r.Tasks) != 1 || r.Tasks[0].TaskID != probe.ID {
			w.t.Fatalf("delivered %+v", r.Tasks)
		}
	})
}

func TestALeaseThatRunsOutLeadsBackToQueued(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k := w.enqueue(n, "node.drain", "")
		d := w.fetch(n)[0]
		w.clock.Advance(wire.LeaseTime)
		if s := w.sweep(); s.Requeued != 0 {
			w.t.Fatal("it was requeued while the lease held")
		}
		w.clock.Advance(time.Microsecond)
		if s := w.sweep(); s.Requeued != 1 {
			w.t.Fatalf("swept %+v", s)
		}
		w.expect(k.ID, broker.TaskQueued, "")
		again := w.fetch(n)
		if len(again) != 1 || again[0].Attempt != 2 || again[0].Envelope != d.Envelope {
			w.t.Fatalf("delivered again %+v", again)
		}
		// The node ran the task once, under its first attempt.
		if r := w.succeed(n, d, `{"drained":true,"sessions_ended":0,"processes_stopped":0}`); r.Status != "succeeded" {
			w.t.Fatalf("answered %+v", r)
		}
	})
}

func TestProgressRenewsTheLease(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k := w.enqueue(n, "node.drain", "")
		d := w.fetch(n)[0]
		for range 10 {
			w.clock.Advance(wire.LeaseTime - time.Second)
			if r := w.progress(n, d); !r.LeaseUntil.Equal(w.clock.Now().Add(wire.LeaseTime)) {
				w.t.Fatalf("leased until %v", r.LeaseUntil)
			}
			if s := w.sweep(); s != (store.Swept{}) {
				w.t.Fatalf("swept %+v", s)
			}
		}
		got := w.expect(k.ID, broker.TaskDispatched, "")
		if got.Progress == nil || got.Progress.CurrentStepName != "step" || !got.Progress.At.Equal(w.clock.Now()) {
			w.t.Fatalf("progress %+v", got.Progress)
		}
	})
}

// Late progress before another delivery shows that the node is at work: nothing is delivered
// again.
func TestLateProgressTakesTheTaskUpAgain(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k := w.enqueue(n, "node.drain", "")
		d := w.fetch(n)[0]
		w.clock.Advance(2 * wire.LeaseTime)
		w.sweep()
		w.progress(n, d)
		w.expect(k.ID, broker.TaskDispatched, "")
		if again := w.fetch(n); len(again) != 0 {
			w.t.Fatalf("delivered %+v", again)
		}
	})
}

func TestProgressOfAnotherAttemptIsRefused(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		w.enqueue(n, "node.drain", "")
		d := w.fetch(n)[0]
		w.clock.Advance(2 * wire.LeaseTime)
		w.sweep()
		w.fetch(n)
		_, err := w.queue.Progress(ctx, n.Peer, d.TaskID, wire.ProgressRequest{Attempt: 1, StepStatus: "running"})
		w.refused(err, "attempt_superseded")
		for _, bad := range []wire.ProgressRequest{
			{Attempt: 2, StepStatus: "dancing"}, {Attempt: 2, StepStatus: "running", StepPercent: 101}, {Attempt: 2, StepStatus: "running", CurrentStepIndex: 3, TotalSteps: 2},
		} {
			_, err := w.queue.Progress(ctx, n.Peer, d.TaskID, bad)
			w.refused(err, "bad_progress")
		}
		w.succeed(n, wire.Delivery{TaskID: d.TaskID, Attempt: 2, Envelope: d.Envelope}, `{"drained":true,"sessions_ended":0,"processes_stopped":0}`)
		_, err = w.queue.Progress(ctx, n.Peer, d.TaskID, wire.ProgressRequest{Attempt: 2, StepStatus: "running"})
		w.refused(err, "task_ended")
	})
}

func TestWhatWasNeverDeliveredExpires(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k := w.enqueue(n, "node.heartbeat_check", "") // a probe: 10 minutes
		w.clock.Advance(10 * time.Minute)
		if s := w.sweep(); s.Expired != 0 {
			w.t.Fatal("it expired while it could still start")
		}
		w.clock.Advance(time.Microsecond)
		if d := w.fetch(n); len(d) != 0 {
			w.t.Fatal("it was delivered after its latest start")
		}
		if s := w.sweep(); s.Expired != 1 {
			w.t.Fatalf("swept %+v", s)
		}
		w.expect(k.ID, broker.TaskExpired, taskcatalog.CodeTaskExpired)
	})
}

func TestWhatWasDeliveredEndsUnknownTenMinutesAfterItsLatestStart(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k := w.enqueue(n, "node.heartbeat_check", "")
		w.fetch(n)
		w.clock.Advance(20*time.Minute - time.Microsecond)
		w.sweep()
		w.expect(k.ID, broker.TaskQueued, "")
		w.clock.Advance(time.Microsecond)
		if s := w.sweep(); s.Unknown != 1 || s.Expired != 0 {
			w.t.Fatalf("swept %+v", s)
		}
		w.expect(k.ID, broker.TaskFailed, taskcatalog.CodeOutcomeUnknown)
	})
}

// A cleanup may run for hours after its latest start.
func TestATaskThatIsStillReportedOnIsNotUnknown(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k := w.enqueue(n, "node.heartbeat_check", "")
		d := w.fetch(n)[0]
		for range 120 {
			w.clock.Advance(30 * time.Second)
			w.progress(n, d)
			w.sweep()
		}
		w.expect(k.ID, broker.TaskDispatched, "")
		w.clock.Advance(wire.LeaseTime + store.UnknownGrace - time.Microsecond)
		w.sweep()
		w.expect(k.ID, broker.TaskQueued, "")
		w.clock.Advance(time.Microsecond)
		w.sweep()
		w.expect(k.ID, broker.TaskFailed, taskcatalog.CodeOutcomeUnknown)
	})
}

// A node that fetches again and again and never reports does not keep a task alive.
func TestFetchingIsNoSignOfLife(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k := w.enqueue(n, "node.heartbeat_check", "")
		for range 25 {
			w.fetch(n)
			w.clock.Advance(wire.LeaseTime + time.Second)
			w.sweep()
		}
		w.expect(k.ID, broker.TaskFailed, taskcatalog.CodeOutcomeUnknown)
	})
}

func TestCancelBeforeDeliveryEndsTheTask(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k := w.enqueue(n, "node.drain", "")
		_, err := w.queue.Cancel(ctx, operator, k.ID, "not now")
		w.ok(err)
		w.expect(k.ID, broker.TaskCanceled, taskcatalog.CodeCanceled)
		if d := w.fetch(n); len(d) != 0 {
			w.t.Fatalf("delivered %+v", d)
		}
		_, err = w.queue.Cancel(ctx, operator, k.ID, "once more")
		w.ok(err)
		_, err = w.queue.Cancel(ctx, operator, "t-none", "")
		w.refused(err, "task_not_found")
	})
}

func TestCancelAfterDeliveryAsksTheNode(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k := w.enqueue(n, "node.drain", "")
		d := w.fetch(n)[0]
		_, err := w.queue.Cancel(ctx, operator, k.ID, "stop it")
		w.ok(err)
		w.expect(k.ID, broker.TaskDispatched, "")
		poll := func() []string {
			r, err := w.queue.Wait(ctx, n.Peer, lanes, 0)
			w.ok(err)
			return r.Cancel
		}
		if got := poll(); !slices.Equal(got, []string{k.ID}) {
			w.t.Fatalf("told to stop %v", got)
		}
		if got := poll(); len(got) != 0 {
			w.t.Fatalf("told in a circle: %v", got)
		}
		if r := w.progress(n, d); !slices.Equal(r.Cancel, []string{k.ID}) {
			w.t.Fatalf("progress answered with %v", r.Cancel)
		}
		w.clock.Advance(10 * time.Second) // the answer may have been lost
		if got := poll(); !slices.Equal(got, []string{k.ID}) {
			w.t.Fatalf("told again %v", got)
		}
		_, err = w.queue.Result(ctx, n.Peer, k.ID, w.answer(n, d, w.evidence(n, d, taskcatalog.OutcomeCanceled, ""), ""))
		w.ok(err)
		w.expect(k.ID, broker.TaskCanceled, taskcatalog.CodeCanceled)
	})
}

// The node's completed work counts, not the request to cancel.
func TestATaskThatSucceedsInSpiteOfACancelSucceeded(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k := w.enqueue(n, "node.heartbeat_check", "")
		d := w.fetch(n)[0]
		_, err := w.queue.Cancel(ctx, operator, k.ID, "")
		w.ok(err)
		w.succeed(n, d, heartbeat)
		w.expect(k.ID, broker.TaskSucceeded, "")
	})
}

// The task may have reached the node: nobody starts it now, and nobody claims that it did not
// run.
func TestACanceledTaskIsNotDeliveredAgain(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k := w.enqueue(n, "node.heartbeat_check", "")
		w.fetch(n)
		_, err := w.queue.Cancel(ctx, operator, k.ID, "")
		w.ok(err)
		w.clock.Advance(2 * wire.LeaseTime)
		w.sweep()
		if d := w.fetch(n); len(d) != 0 {
			w.t.Fatalf("delivered %+v", d)
		}
		w.clock.Advance(20 * time.Minute)
		w.sweep()
		w.expect(k.ID, broker.TaskFailed, taskcatalog.CodeOutcomeUnknown)
	})
}
