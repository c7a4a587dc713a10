package turnover_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
)

// A turnover that was refused because of a tenant is cancelled without a trace.
func TestACancelOfWhatNeverBeganLeavesTheNodeInService(t *testing.T) {
	w := newWorld(t)
	w.book.LetIn(node, "a-1", "acme", false)
	r := w.begin(turnover.Request{Mode: turnover.SoftReset})
	if r.Stage != "disable_node" || !r.Status.Stopped() {
		t.Fatalf("%s at %s", r.Status, r.Stage)
	}
	if r = w.act(r.ID, chain.Cancel); r.Status != chain.Cancelled {
		t.Fatalf("%s at %s", r.Status, r.Stage)
	}
	w.stands(broker.Active, false)
}

// The run had begun, and its broker died before the save: the node is kept from use.
func TestACancelOfWhatBeganUnseenKeepsTheNodeFromUse(t *testing.T) {
	w := newWorld(t)
	r, err := w.start(turnover.Request{Mode: turnover.SoftReset})
	if err != nil {
		t.Fatal(err)
	}
	w.lossy.Fate = func(call int) chaintest.Fate {
		if call != 1 { // of the first step: its claim, and then its save
			return chaintest.Done
		}
		return chaintest.Lost
	}
	if _, err := w.engine.Step(ctx); err == nil {
		t.Fatal("its save was not lost")
	}
	w.stands(broker.Draining, true)
	w.clock.Advance(2 * time.Minute)
	if r = w.act(r.ID, chain.Cancel); r.Status != chain.Cancelled {
		t.Fatalf("%s at %s", r.Status, r.Stage)
	}
	w.stands(broker.Quarantined, true)
}

// Tasks of a run are not carried out after the run was cancelled.
func TestACancelTakesBackWhatWasAsked(t *testing.T) {
	w := newWorld(t)
	w.book.Change(node, func(m *turnovertest.Machine) {
		m.Works = map[string]time.Duration{"node.rotate_identity": time.Hour}
	})
	r, err := w.start(turnover.Request{Mode: turnover.SoftReset})
	if err != nil {
		t.Fatal(err)
	}
	for w.run(r.ID).Stage != "rotate_node_identity" || len(w.book.Tasks(node, "node.rotate_identity")) == 0 {
		w.clock.Advance(5 * time.Second)
		if _, err := w.engine.Step(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if r = w.act(r.ID, chain.Cancel); r.Status != chain.Cancelled {
		t.Fatalf("%s at %s", r.Status, r.Stage)
	}
	if k := w.book.Tasks(node, "node.rotate_identity")[0]; k.Status != broker.TaskCanceled {
		t.Errorf("task %s is %s", k.ID, k.Status)
	}
	w.stands(broker.Quarantined, true)
}

// A node whose storage was touched without an inspection afterwards is not in service.
func TestAStorageCleanupThatWasNotLookedAtKeepsTheNodeFromUse(t *testing.T) {
	cleanup := turnover.Request{Mode: turnover.StorageCleanup, StorageCleanup: "local"}
	t.Run("its validation fails", func(t *testing.T) {
		w := newWorld(t)
		w.book.Change(node, func(m *turnovertest.Machine) {
			m.Fails = map[string]taskcatalog.Code{"node.validate_clean": "handler_failed"}
		})
		if r := w.begin(cleanup); r.Stage != "validate_clean_node" || !r.Status.Stopped() {
			t.Fatalf("%s at %s", r.Status, r.Stage)
		}
		w.stands(broker.Quarantined, true)
	})
	t.Run("it fails, and is cancelled", func(t *testing.T) {
		w := newWorld(t)
		w.book.Change(node, func(m *turnovertest.Machine) {
			m.Fails = map[string]taskcatalog.Code{"node.storage_cleanup": "handler_failed"}
		})
		r := w.begin(cleanup)
		if r.Stage != "cleanup_storage" || !r.Status.Stopped() {
			t.Fatalf("%s at %s", r.Status, r.Stage)
		}
		w.stands(broker.Quarantined, true) // as a run that waits for a person leaves its node
		if r = w.act(r.ID, chain.Cancel); r.Status != chain.Cancelled {
			t.Fatalf("%s at %s", r.Status, r.Stage)
		}
		w.stands(broker.Quarantined, true)
	})
	t.Run("it fails once", func(t *testing.T) {
		w := newWorld(t)
		w.book.Change(node, func(m *turnovertest.Machine) { m.Cancels = map[string]int{"node.storage_cleanup": 1} })
		if r := w.begin(cleanup); r.Status != chain.Completed {
			t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
		}
		w.stands(broker.Active, false)
	})
	t.Run("its agent takes it, and says nothing more", func(t *testing.T) {
		w := newWorld(t)
		w.book.Change(node, func(m *turnovertest.Machine) {
			m.Works = map[string]time.Duration{"node.storage_cleanup": 100 * time.Hour}
		})
		r, err := w.start(cleanup)
		for range 3 {
			w.clock.Advance(10 * time.Second)
			if _, wrong := w.engine.Step(ctx); wrong != nil {
				err = wrong
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		w.clock.Advance(50 * time.Hour)
		r = w.settle(r.ID)
		if r.Stage != "cleanup_storage" || !r.Status.Stopped() || r.Failure.Code != "agent_silent" {
			t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
		}
		w.stands(broker.Quarantined, true)
		for _, k := range w.book.Tasks(node, "node.storage_cleanup") {
			if k.Status != broker.TaskCanceled {
				t.Errorf("task %s is %s, and would be carried out", k.ID, k.Status)
			}
		}
	})
	t.Run("it never began", func(t *testing.T) {
		w := newWorld(t)
		w.book.LetIn(node, "a-1", "acme", false)
		r := w.begin(cleanup)
		if r.Stage != "cleanup_storage" || !r.Status.Stopped() {
			t.Fatalf("%s at %s", r.Status, r.Stage)
		}
		if r = w.act(r.ID, chain.Cancel); r.Status != chain.Cancelled {
			t.Fatalf("%s at %s", r.Status, r.Stage)
		}
		w.stands(broker.Active, false)
	})
}

// A task that a person cancels is not done, in any stage: its run stops, and the node is not
// handed out.
func TestATaskThatIsCancelledIsNotDone(t *testing.T) {
	for _, kind := range []string{"node.drain", "node.rotate_identity", "node.storage_cleanup", "node.gpu_scrub", "node.validate_clean"} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			const always = 100
			w.book.Change(node, func(m *turnovertest.Machine) { m.Cancels = map[string]int{kind: always} })
			r := w.begin(turnover.Request{Mode: turnover.SoftReset})
			if !r.Status.Stopped() || r.Failure == nil || r.Failure.Code != "canceled" {
				t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
			if m := w.book.Machine(node); m.Status == broker.Active || !m.TurnoverOwed {
				t.Errorf("the node is %s, owed %v", m.Status, m.TurnoverOwed)
			}
			w.book.Change(node, func(m *turnovertest.Machine) { m.Cancels = nil })
			if r = w.act(r.ID, chain.RetryStage); r.Status != chain.Completed {
				t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
			w.stands(broker.Active, false)
		})
	}
}
