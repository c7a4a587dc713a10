package rollout_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/rollout"
)

// A pause withdraws runs that wait for tenants, lets the others end and follows them. The pause
// is stored in the rollout's state: whatever save is lost, nothing begins after it.
func TestAPauseAndAnAbort(t *testing.T) {
	for _, lost := range []int{-1, 0, 1, 2, 3, 4, 5} {
		w := newWorld(t, 9)
		w.machines[id(1)].busy = true
		w.machines[id(2)].makes = unwell
		req := request()
		req.Safety = broker.AfterDrain
		w.start(req)
		w.settle(105 * time.Second) // three of the first wave are under way, one is parked
		w.act(chain.MarkManual)
		if r, s := w.rollout(); r.Status != chain.Running || !s.Stopping(r) {
			t.Errorf("with three under way it is %s", r.Status)
		}
		at := w.store.Calls()
		w.store.Fate = func(call int) chaintest.Fate {
			if call == at+lost {
				return chaintest.Lost
			}
			return chaintest.Done
		}
		given := len(w.given)
		w.settle(time.Hour)
		w.is(chain.FailedManual, chain.CodeMarked, "waiting 5, done 3, taken_back 1")
		if r, s := w.rollout(); s.Stopping(r) || !strings.Contains(r.Failure.Message, "the rollout was paused: because") || !strings.Contains(r.NextAction, "hostler rollout resume r") {
			t.Errorf("%+v, next %q", r.Failure, r.NextAction)
		}
		w.machines[id(1)].busy = false
		w.settle(time.Hour)
		if len(w.given) != given+1 || w.runs["r-n-001"].Status != chain.Cancelled { // one was taken back
			t.Errorf("%d were given it, then %d", given, len(w.given))
		}
		w.act(chain.Resume)
		if r, s := w.rollout(); s.Stopping(r) {
			t.Error("resumed, it is said to stop")
		}
		w.settle(time.Minute)
		w.act(chain.Cancel)
		w.settle(time.Hour)
		r, s := w.rollout()
		n := s.Count(-1)
		if r.Status != chain.Cancelled || n[rollout.Done] < 4 || n[rollout.Done]+n[rollout.Skipped] != 8 || n[rollout.Skipped] == 0 {
			t.Errorf("%s with %v", r.Status, n)
		}
		w.once()
		if t.Failed() {
			t.Fatalf("with call %d lost", lost)
		}
	}
}

// A pause before any work, or of a stopped rollout, ends in a rollout that can be resumed as
// well.
func TestAPauseAtOnce(t *testing.T) {
	w := newWorld(t, 3)
	w.start(request())
	w.act(chain.MarkManual)
	w.settle(time.Minute)
	w.is(chain.FailedManual, chain.CodeMarked, "waiting 3")
	w.act(chain.MarkManual)
	w.is(chain.FailedManual, chain.CodeMarked, "waiting 3")
	w.act(chain.Resume)
	w.settle(time.Hour)
	w.is(chain.Completed, "", "done 3")
}

func TestARolloutThatIsAbortedIsNotPaused(t *testing.T) {
	w := newWorld(t, 9)
	w.start(request())
	w.settle(50 * time.Second)
	w.act(chain.Cancel)
	_, err := w.engine.Act(ctx, chain.Order{ID: "r", Actor: ada, Action: chain.MarkManual, Reason: "no, wait"})
	if no, ok := errors.AsType[*chain.Refused](err); !ok || no.Code != "run_compensating" {
		t.Errorf("it is paused: %v", err)
	}
	w.settle(time.Hour)
	w.is(chain.Cancelled, "", "done 1, skipped 8")
}

// A failed abort continues where it stopped.
func TestAnAbortThatHasFailedGoesOn(t *testing.T) {
	w := newWorld(t, 9)
	w.start(request())
	w.settle(20 * time.Second)
	w.act(chain.Cancel)
	w.unread = broker.Errorf(broker.Invalid, "broken", "it cannot be read")
	w.settle(time.Hour)
	if r, _ := w.rollout(); r.Status != chain.FailedRetryable || r.Direction != chain.Undo {
		t.Fatalf("it is %s, %s", r.Status, r.Direction)
	}
	w.unread = nil
	w.act(chain.RetryStage)
	w.settle(time.Hour)
	w.is(chain.Cancelled, "", "done 1, skipped 8")
}

// cut starts a rollout whose broker dies when it has begun a node of the first wave and has saved
// nothing of it.
func cut(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, 9)
	w.machines[id(1)].busy = true // the run would begin whenever the tenant leaves
	req := request()
	req.Safety = broker.AfterDrain
	w.start(req)
	for w.runs["r-n-001"] == nil {
		w.store.Fate = func(int) chaintest.Fate { // only the save of the step that begins the run
			if w.runs["r-n-001"] != nil {
				return chaintest.Lost
			}
			return chaintest.Done
		}
		worked, err := w.engine.Step(ctx)
		if err != nil && !errors.Is(err, chaintest.ErrKilled) {
			t.Fatal(err)
		}
		if !worked {
			next, err := w.memory.NextDue(ctx)
			if err != nil {
				t.Fatal(err)
			}
			w.clock.AdvanceTo(next)
		}
	}
	w.store.Fate = nil
	w.reboot()
	return w
}

// A run whose start was not saved still belongs to the rollout, also if the rollout's next action
// is to stop.
func TestARunThatNoSaveTellsOfIsNobodysElse(t *testing.T) {
	for name, stops := range map[string]func(*world){
		"halted":  func(w *world) { w.release = broker.Errorf(broker.Refused, "release_revoked", "it was revoked") },
		"paused":  func(w *world) { w.act(chain.MarkManual) },
		"aborted": func(w *world) { w.act(chain.Cancel) },
	} {
		t.Run(name, func(t *testing.T) {
			w := cut(t)
			w.clock.Advance(2 * time.Minute) // its lease
			stops(w)
			w.settle(time.Hour)
			if r, _ := w.rollout(); r.Status.Moving() {
				t.Errorf("it is %s", r.Status)
			}
			w.machines[id(1)].busy = false
			w.settle(time.Hour)
			for id, r := range w.runs {
				if r.Status.Moving() {
					t.Errorf("run %s is %s at the end", id, r.Status)
				}
			}
			if w.machines[id(1)].version != "1.3.0" {
				t.Error("it was given the release after all")
			}
			if name != "aborted" {
				w.release = nil
				w.act(chain.Resume)
				w.settle(time.Hour)
				w.is(chain.Completed, "", "done 9")
			}
			w.once()
		})
	}
}

// The way back is bounded like the way there: no more nodes are closed to tenants, and no more
// are worked on, at a time. A node in another run is waited for.
func TestTakingAllBackIsBounded(t *testing.T) {
	w := newWorld(t, 20)
	for i := 10; i < 20; i++ {
		w.machines[id(i)].makes = "rolled_back"
	}
	req := request()
	req.OnFailure, req.Safety = rollout.Rollback, broker.AfterDrain
	w.start(req)
	for _, s := w.rollout(); s.Count(-1)[rollout.Done] < 10; _, s = w.rollout() {
		w.settle(time.Second)
	}
	for i := range 8 {
		w.machines[id(i)].busy = true
	}
	w.machines[id(8)].inRun = "r-other"
	w.runs["r-other"] = &chain.Record{ID: "r-other", Kind: others, Status: chain.Running}
	w.settle(2 * time.Hour)
	parked := 0
	_, s := w.rollout()
	for _, m := range s.Members {
		if m.Parked && w.machines[m.NodeID].busy {
			parked++
		}
	}
	r, _ := w.rollout()
	if n := s.Count(-1); parked != 3 || n[rollout.TakenBack] != 1 || r.Status != chain.Running || !strings.Contains(r.Waiting, "to be rolled back") {
		t.Fatalf("%d are parked, it is %s with %v: %s", parked, r.Status, n, r.Waiting)
	}
	for _, m := range w.machines {
		m.busy, m.inRun = false, ""
	}
	delete(w.runs, "r-other")
	w.settle(2 * time.Hour)
	r, s = w.rollout()
	if n := s.Count(-1); r.Status != chain.FailedManual || n[rollout.TakenBack] != 10 || n[rollout.Done] != 0 {
		t.Errorf("it is %s with %v", r.Status, n)
	}
	if w.most > 6 { // three, and the three that were parked
		t.Errorf("%d runs moved at once", w.most)
	}
}

// A member that cannot be taken back without a person, or shall not be any more, gets a reason.
func TestWhatStaysThatWasToBeTakenBack(t *testing.T) {
	for back, as := range map[string]func(*world){
		"node_in_run": func(w *world) { // by a run that waits for a person
			w.machines[id(0)].inRun = "r-other"
			w.runs["r-other"] = &chain.Record{ID: "r-other", Kind: others, Status: chain.FailedManual}
		},
		"runs_other": func(w *world) { w.machines[id(0)].version, w.machines[id(0)].seen.Delivered = "1.5.0", "r-other" },
	} {
		t.Run(back, func(t *testing.T) {
			w := newWorld(t, 6)
			for i := 1; i < 6; i++ {
				w.machines[id(i)].makes = "rolled_back"
			}
			req := request()
			req.OnFailure = rollout.Rollback
			w.start(req)
			w.settle(time.Minute)
			as(w)
			given := slices.Clone(w.given)
			w.settle(2 * time.Hour)
			if r, _ := w.rollout(); r.Status != chain.FailedManual {
				t.Fatalf("it is %s: %s", r.Status, r.Waiting)
			}
			if m := w.member(0); m.Result != rollout.Done || m.Back != back || slices.Contains(w.given[len(given):], "1.3.0/"+id(0)) {
				t.Errorf("it is %+v, given %v", m, w.given)
			}
		})
	}
}

// An abort does not wait for tenants on nodes that were to be taken back.
func TestAnAbortWhileAllIsTakenBack(t *testing.T) {
	for back, as := range map[string]func(*world){
		"run_cancelled": func(w *world) { w.machines[id(0)].busy = true },
		"rollout_aborted": func(w *world) {
			w.machines[id(0)].inRun = "r-other"
			w.runs["r-other"] = &chain.Record{ID: "r-other", Kind: others, Status: chain.Running}
		},
	} {
		t.Run(back, func(t *testing.T) {
			w := newWorld(t, 6)
			for i := 1; i < 6; i++ {
				w.machines[id(i)].makes = "rolled_back"
			}
			req := request()
			req.OnFailure, req.Safety = rollout.Rollback, broker.AfterDrain
			w.start(req)
			w.settle(time.Minute)
			as(w)
			w.settle(time.Hour)
			if m := w.member(0); m.Result != rollout.TakingBack || !m.Parked {
				t.Fatalf("it is %+v", m)
			}
			w.act(chain.Cancel)
			w.settle(time.Hour)
			if r, _ := w.rollout(); r.Status != chain.Cancelled || w.member(0).Result != rollout.Done || w.member(0).Back != back || w.machines[id(0)].version != "1.4.0" {
				t.Errorf("it is %s, and %+v", r.Status, w.member(0))
			}
		})
	}
}
