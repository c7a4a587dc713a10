package terminals_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/terminals"
	"github.com/hostler/hostler/taskcatalog"
)

// ends lets the node claim its task and report a result.
func (w *world) ends(status broker.TaskStatus, outcome taskcatalog.Outcome, code taskcatalog.Code) {
	w.Helper()
	claimed, _, err := w.db.ClaimTasks(ctx, nodeID, 1, []taskcatalog.Lane{taskcatalog.LaneConcurrent}, 10)
	w.ok(err)
	if len(claimed) != 1 {
		w.Fatalf("%d tasks", len(claimed))
	}
	k := claimed[0]
	_, _, err = w.db.RecordResult(ctx, store.Result{
		NodeID: nodeID, Epoch: 1, TaskID: k.ID, Attempt: k.Attempt, Status: status, Outcome: outcome, Code: code, Message: "as the node says",
	}, nil)
	w.ok(err)
}

// opened waits until the node was sent to its relay that many times. resume reports whether the
// last task may only resume a process, not start one.
func (w *world) opened(times int) (resume bool) {
	w.Helper()
	w.eventually("the node is sent to its relay", func() bool { return len(w.tasks("terminal.open")) >= times })
	all := w.tasks("terminal.open")
	if len(all) != times {
		w.Fatalf("it was sent there %d times, want %d", len(all), times)
	}
	last := all[0]
	for _, k := range all {
		if k.ID > last.ID {
			last = k
		}
	}
	var p taskcatalog.TerminalOpenParams
	w.ok(taskcatalog.DecodeStrict(last.Params, &p))
	return p.Resume
}

func TestASessionThatTheNodeRefusesEndsWithItsReason(t *testing.T) {
	each(t, func(w *world) {
		id := w.replica("a.example:7442").open()
		w.ends(broker.TaskFailed, taskcatalog.OutcomeFailed, "terminal_user_unknown")
		w.closed(id, "terminal_user_unknown")
	})
}

// An absent node is sent to its relay again. Once the session's process has begun, no second
// process is started: if the node has lost the process, the session ends.
func TestASessionWhoseNodeIsAwayIsSentForAgain(t *testing.T) {
	each(t, func(w *world) {
		id := w.replica("a.example:7442").open()
		if w.opened(1) {
			t.Error("it cannot have begun")
		}
		w.ends(broker.TaskFailed, taskcatalog.OutcomeInterrupted, "interrupted")
		w.clock.Advance(11 * time.Second)
		if w.opened(2) {
			t.Error("it was interrupted, and is taken for begun")
		}
		w.ends(broker.TaskSucceeded, taskcatalog.OutcomeSucceeded, "")
		w.clock.Advance(11 * time.Second)
		if !w.opened(3) {
			t.Error("a second process would be started")
		}
		w.ends(broker.TaskFailed, taskcatalog.OutcomeFailed, "handover_version")
		w.clock.Advance(11 * time.Second)
		if !w.opened(4) {
			t.Error("that it has begun is forgotten")
		}
		w.ends(broker.TaskFailed, taskcatalog.OutcomeFailed, "terminal_gone")
		w.closed(id, "terminal_gone")
	})
}

// A node is also told of an end that the relay alone has decided.
func TestTheNodeIsToldOfAnEndByTheRelay(t *testing.T) {
	each(t, func(w *world) {
		a := w.replica("a.example:7442")
		id := a.open()
		w.ok(a.relay.Close(ctx, id, "terminal_idle", "as the relay does by itself"))
		w.closed(id, "terminal_idle")
	})
}

// Of two brokers with one address, the second opens no session, and does not touch the sessions of
// the first.
func TestTwoBrokersAtOneAddress(t *testing.T) {
	each(t, func(w *world) {
		a, b := w.replica("a.example:7442"), w.replica("a.example:7442")
		id := a.open()
		if _, _, err := b.service.Open(ctx, ada, terminals.Request{NodeID: nodeID, Username: "bob", Size: size}); code(err) != "relay_address_taken" {
			t.Error(err)
		}
		_, err := w.db.MoveTerminalSession(ctx, broker.Actor{Name: "test"}, id, store.TerminalMove{To: broker.TerminalOpen})
		w.ok(err)
		w.ok(b.service.Leave(ctx))
		for range 5 {
			w.clock.Advance(4 * time.Second)
			w.eventually("it says that it lives", func() bool {
				all, err := w.db.LiveTerminals(ctx)
				w.ok(err)
				return len(all) == 1 && all[0].RelayHeard.Equal(w.db.Now())
			})
		}
		if row := w.row(id); row.Status != broker.TerminalOpen {
			t.Errorf("it is %+v", row)
		}
		a.stop()
		a.relay.Stop() // as if killed
		w.clock.Advance(13 * time.Second)
		b.open()
	})
}

// The end of a session cancels its queued terminal.open task, so an absent node does nothing later.
func TestWhatWouldOpenASessionThatIsOverIsTakenBack(t *testing.T) {
	each(t, func(w *world) {
		r := w.replica("a.example:7442")
		id := r.open()
		w.ok(r.service.Close(ctx, ada, id, "enough"))
		w.closed(id, terminals.CodeClosed)
		w.eventually("it is taken back", func() bool {
			opens := w.tasks("terminal.open")
			return len(opens) == 1 && opens[0].Status == broker.TaskCanceled
		})
	})
}
