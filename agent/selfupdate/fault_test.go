package selfupdate

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// failing makes disk changes fail for want of space: the first n for which hit returns true.
func (w *world) failing(n int, hit func(what string) bool) *int {
	return w.failingWith(syscall.ENOSPC, n, hit)
}

func (w *world) failingWith(fault error, n int, hit func(what string) bool) *int {
	step, failed := w.store.step, 0
	w.store.step = func(what string) error {
		if failed < n && hit(what) {
			failed++
			return fault
		}
		return step(what)
	}
	return &failed
}

// between runs the watcher to its end and calls look before each of its pauses.
func (w *world) between(sd Systemd, look func()) *taskcatalog.AgentDelivery {
	w.Helper()
	watcher := w.watcher()
	if sd != nil {
		watcher.Systemd = sd
	}
	sleep := watcher.Sleep
	watcher.Sleep = func(ctx context.Context, d time.Duration) error {
		look()
		return sleep(ctx, d)
	}
	if err := watcher.Run(w.Context()); err != nil {
		w.Fatal(err)
	}
	st, err := w.store.Load()
	if err != nil {
		w.Fatal(err)
	}
	return st.Last()
}

func (w *world) arm(behaviour string) {
	w.Helper()
	if err := w.update(w.publish("1.1.0", behaviour)); err != nil {
		w.Fatal(err)
	}
}

func TestAStateThatCannotBePutBackYetIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.arm("damages")
	failed := w.failing(3, func(what string) bool { return what == "sync ledger.db.new" })
	seen := 0
	d := w.between(nil, func() {
		if *failed == seen {
			return
		}
		seen = *failed
		st, err := w.store.Load()
		if err != nil || st.Trial == nil || st.Trial.Step != Reverting {
			t.Errorf("after a failure: %+v %v", st, err)
		}
		if _, err := os.Stat(filepath.Join(w.state, "update", beforeDir, "ledger.db")); err != nil {
			t.Errorf("after a failure: %v", err)
		}
		if _, err := os.Stat(filepath.Join(w.state, "ledger.db.new")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("half a copy is left: %v", err)
		}
		if w.agent == nil || w.agent.version != "1.0.0" {
			t.Errorf("after a failure %+v runs", w.agent)
		}
	})
	if seen != 3 || d == nil || d.Outcome != taskcatalog.UpdateRolledBack || !strings.Contains(d.Message, "was restored") {
		t.Errorf("%d failures, %+v", seen, d)
	}
	if raw, err := os.ReadFile(filepath.Join(w.state, "ledger.db")); err != nil || string(raw) != "a sound ledger" || w.agent.behaviour != "fine" {
		t.Errorf("%q %v, %+v", raw, err, w.agent)
	}
}

// stops is a systemd whose Stop does something more.
type stops struct {
	*world
	stop func(context.Context) error
}

func (s stops) Stop(ctx context.Context, unit string) error {
	return errors.Join(s.world.Stop(ctx, unit), s.stop(ctx))
}

func (s stops) Launch(ctx context.Context, unit string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.world.Launch(ctx, unit)
}

// Whatever fails after the agent was stopped, an agent runs; before the switch is recorded it is
// the old version.
func TestAFaultBetweenStopAndStartLeavesAnAgent(t *testing.T) {
	for _, c := range []struct {
		name, behaviour string
		hit             func(w *world, st *State, what string) bool
		runs            string // while it fails; empty: any
		outcome         taskcatalog.UpdateOutcome
	}{
		{"the switch cannot be written down", "fine", func(w *world, st *State, what string) bool {
			return what == "write state.json.new" && st.Trial.Step == Armed && w.store.Current() == "1.1.0"
		}, "1.0.0", taskcatalog.UpdateConfirmed},
		{"the switch cannot be made", "fine", func(_ *world, st *State, what string) bool {
			return what == "link current.new" && st.Trial.Step == Armed
		}, "1.0.0", taskcatalog.UpdateRolledBack},
		{"nothing can be written", "fine", func(w *world, st *State, what string) bool {
			return (strings.HasPrefix(what, "write") || strings.HasPrefix(what, "fill")) && st.Trial.Step == Armed && w.agent == nil
		}, "1.0.0", taskcatalog.UpdateConfirmed},
		{"it cannot be switched back", "exits", func(_ *world, st *State, what string) bool {
			return what == "link current.new" && st.Trial.Step == Reverting
		}, "", taskcatalog.UpdateRolledBack},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.arm(c.behaviour)
			failed := w.failingWith(syscall.EIO, 4, func(what string) bool {
				st, err := w.store.Load()
				return err == nil && st.Trial != nil && c.hit(w, st, what)
			})
			seen := 0
			d := w.between(nil, func() {
				if *failed == seen {
					return
				}
				seen = *failed
				if w.agent == nil || c.runs != "" && w.agent.version != c.runs {
					t.Errorf("after a failure %+v runs", w.agent)
				}
			})
			if seen == 0 || d == nil || d.Outcome != c.outcome {
				t.Errorf("%d failures, %+v", seen, d)
			}
		})
	}
}

func TestAStopThatFailsLeavesAnAgent(t *testing.T) {
	for behaviour, outcome := range map[string]taskcatalog.UpdateOutcome{"fine": taskcatalog.UpdateConfirmed, "exits": taskcatalog.UpdateRolledBack} {
		w := newWorld(t)
		w.arm(behaviour)
		n := 0
		d := w.between(stops{w, func(context.Context) error {
			if n++; n%2 == 1 {
				return errors.New("the job is canceled")
			}
			return nil
		}}, func() {
			if w.agent == nil {
				t.Error("no agent runs")
			}
		})
		if n < 2 || d == nil || d.Outcome != outcome {
			t.Errorf("%d stops, %+v", n, d)
		}
	}
}

func TestAWatcherThatIsAskedToStopHasAnAgentRunFirst(t *testing.T) {
	for behaviour, stopAt := range map[string]int{"fine": 1, "exits": 2} { // in the switch, in the revert
		w := newWorld(t)
		w.arm(behaviour)
		ctx, cancel := context.WithCancel(t.Context())
		watcher, n := w.watcher(), 0
		watcher.Systemd = stops{w, func(ctx context.Context) error {
			if n++; n == stopAt {
				cancel()
			}
			return ctx.Err()
		}}
		if err := watcher.Run(ctx); err != nil || n != stopAt {
			t.Errorf("%d stops, %v", n, err)
		}
		if w.agent == nil || w.agent.version != w.store.Current() {
			t.Errorf("%s: %+v runs", behaviour, w.agent)
		}
		if d := w.settled(); d == nil || d.ID != "t-1.1.0" {
			t.Errorf("the next start: %+v", d)
		}
	}
}

func TestATrialThatIsTakenBackDuringTheSwitchIsNotMade(t *testing.T) {
	for name, decide := range map[string]func(*State){
		"disarmed": func(st *State) { st.Trial = nil },
		"by hand":  func(st *State) { st.Trial.Step, st.Trial.Reason = Reverting, CodeByHand },
	} {
		w := newWorld(t)
		w.arm("fine")
		n := 0
		w.between(stops{w, func(context.Context) error {
			if n++; n > 1 {
				return nil
			}
			return w.store.Change(func(st *State) error { decide(st); return nil })
		}}, func() {})
		if w.agent == nil || w.agent.version != "1.0.0" || w.store.Current() != "1.0.0" || len(w.ran) > 3 {
			t.Errorf("%s: %+v runs, current %s, %v", name, w.agent, w.store.Current(), w.ran)
		}
		for _, version := range w.ran {
			if version != "1.0.0" {
				t.Errorf("%s: %s ran", name, version)
			}
		}
	}
}

func TestASystemdThatDoesNotAnswerIsNotWaitedForWithoutEnd(t *testing.T) {
	w := newWorld(t)
	w.arm("fine")
	synctest.Test(t, func(t *testing.T) {
		began, n := time.Now(), 0
		var took time.Duration
		d := w.between(stops{w, func(ctx context.Context) error {
			if n++; n > 1 {
				return nil
			}
			<-ctx.Done()
			took = time.Since(began)
			return ctx.Err()
		}}, func() {
			if w.agent == nil {
				t.Error("no agent runs")
			}
		})
		if d == nil || d.Outcome != taskcatalog.UpdateConfirmed || took > 90*time.Second {
			t.Errorf("%+v, waited for %s", d, took)
		}
	})
}

// A disk that fills up while the state is copied is not left full of a partial copy.
func TestHalfACopyOfTheStateIsTakenAway(t *testing.T) {
	w := newWorld(t)
	w.arm("fine")
	full := false
	w.failing(1, func(what string) bool { full = what == "sync before.new/ledger.db"; return full })
	d := w.between(nil, func() {
		if _, err := os.Stat(filepath.Join(w.state, "update", beforeDir+temporary)); full && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("half a copy is left: %v", err)
		}
		full = false
	})
	if d == nil || d.Outcome != taskcatalog.UpdateRolledBack || d.Reason != CodeNoSpace || w.agent.version != "1.0.0" {
		t.Errorf("%+v, %+v runs", d, w.agent)
	}
}

func TestASwitchWhoseCopyOfTheStateDoesNotFitIsRefused(t *testing.T) {
	w := newWorld(t)
	if err := os.Truncate(filepath.Join(w.state, "ledger.db"), 1<<43); err != nil {
		t.Fatal(err)
	}
	err := w.update(w.publish("1.1.0", "fine"))
	st, failed := w.store.Load()
	if taskcatalog.CodeOf(err, "") != CodeNoSpace || failed != nil || st.Trial != nil || w.watch {
		t.Errorf("%v; %+v %v", err, st, failed)
	}
}

func TestAWatcherThatCannotWriteIsNotReady(t *testing.T) {
	w := newWorld(t)
	if err := w.watcher().Probe(); err != nil {
		t.Fatal(err)
	}
	full := func(folder *os.Root) {
		step, n := w.store.step, 0
		w.store.step = func(what string) error {
			if what == "sync "+probeFile {
				if n++; n == 1 && folder == w.store.lib || n == 2 && folder == w.store.state {
					return syscall.ENOSPC
				}
			}
			return step(what)
		}
	}
	for _, folder := range []*os.Root{w.store.lib, w.store.state} {
		step := w.store.step
		full(folder)
		if err := w.watcher().Probe(); taskcatalog.CodeOf(err, "") != CodeWatcher || !strings.Contains(err.Error(), folder.Name()) {
			t.Errorf("%s: %v", folder.Name(), err)
		}
		if _, err := folder.Stat(probeFile); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", probeFile, err)
		}
		w.store.step = step
	}
	w.arm("fine")
	full(w.store.lib)
	if err := w.store.Change(func(st *State) error { st.Trial.Step = Reverting; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := w.watcher().Probe(); err != nil {
		t.Errorf("a watcher that has begun does not go on: %v", err)
	}
}

// A failed switch is reported with its own code.
func TestASwitchThatCannotBeMadeSaysWhy(t *testing.T) {
	for fault, code := range map[error]taskcatalog.Code{syscall.ENOSPC: CodeNoSpace, syscall.EDQUOT: CodeNoSpace, syscall.EROFS: CodeNotSwitched} {
		w := newWorld(t)
		w.arm("fine")
		step := w.store.step
		w.store.step = func(what string) error {
			if st, err := w.store.Load(); err == nil && st.Trial != nil && st.Trial.Step == Armed && what == "link current.new" {
				return fault
			}
			return step(what)
		}
		d := w.between(nil, func() {})
		st, _ := w.store.Load()
		if d == nil || d.Outcome != taskcatalog.UpdateRolledBack || d.Reason != code || w.agent.version != "1.0.0" || len(st.Pins) > 0 {
			t.Errorf("%v: %+v, %+v runs, %+v", fault, d, w.agent, st.Pins)
		}
	}
}

// An older version ignores the fields added by a newer version.
func TestWhatANewerVersionAddsIsReadOver(t *testing.T) {
	w := newWorld(t)
	w.arm("silent")
	once := false
	d := w.between(nil, func() {
		if once || w.agent == nil || w.agent.version != "1.1.0" || !w.agent.ready {
			return
		}
		once = true
		w.put("state/update/contact", `{"trial":"t-1.1.0","invocation":"`+w.agent.invocation+`","version":"1.1.0","at":"2026-11-22T12:00:02Z","mood":"good"}`)
		raw, err := os.ReadFile(filepath.Join(w.state, updateDir, stateFile))
		if err != nil {
			t.Fatal(err)
		}
		w.put("state/update/state.json", `{"mood":"good",`+strings.TrimPrefix(string(raw), "{"))
	})
	if d == nil || d.Outcome != taskcatalog.UpdateConfirmed {
		t.Errorf("%+v", d)
	}
	w.put("state/update/state.json", `{"form":2,"slots":{}}`)
	if _, err := w.store.Load(); taskcatalog.CodeOf(err, "") != CodeStateInvalid {
		t.Errorf("a newer form: %v", err)
	}
	if form, err := FormIn(w.state); form != 2 || err != nil {
		t.Errorf("form %d, %v", form, err)
	}
	w.put("state/update/state.json", `{"form":1}`+strings.Repeat(" ", maxState))
	if form, err := FormIn(w.state); taskcatalog.CodeOf(err, "") != CodeStateInvalid {
		t.Errorf("one without end is of form %d, %v", form, err)
	}
	if form, err := FormIn(t.TempDir()); form != 1 || err != nil {
		t.Errorf("where there is none: form %d, %v", form, err)
	}
}

// A switch that cannot be made leaves the running version, even one in its proof: the proof goes
// on, and the version before it stays the fallback.
func TestASwitchThatCannotBeMadeLeavesWhatIsBeingProved(t *testing.T) {
	for behaviour, keeps := range map[string]bool{"fine": true, "dies-late": false} {
		w := newWorld(t)
		w.proof = DefaultProof
		w.arm(behaviour)
		begun, left := false, false
		step := w.store.step
		w.store.step = func(what string) error {
			if st, err := w.store.Load(); err == nil && st.Trial != nil && st.Trial.Step == Armed && st.Trial.ToVersion == "1.2.0" && what == "fill before.new/ledger.db" {
				return syscall.ENOSPC
			}
			return step(what)
		}
		d := w.between(nil, func() {
			st, err := w.store.Load()
			if err != nil {
				t.Fatal(err)
			}
			if st.Trial != nil && st.Trial.Step == Proving && !begun {
				begun = true
				if err := w.update(w.publish("1.2.0", "fine")); err != nil {
					t.Fatal(err)
				}
			}
			if d := st.Delivery("t-1.2.0"); d != nil && !left {
				left = true
				if w.agent.version != "1.1.0" || !w.agent.ready || d.Outcome != taskcatalog.UpdateRolledBack || d.Reason != CodeNoSpace || d.From != "1.1.0" {
					t.Errorf("%s: %+v; %+v runs", behaviour, d, w.agent)
				}
				if st.Trial == nil || st.Trial.Step != Proving || st.Trial.ToVersion != "1.1.0" || st.Good != "1.0.0" || w.store.linkTarget(good) != "1.0.0" {
					t.Errorf("%s: it is not proved any more: %+v", behaviour, st)
				}
			}
		})
		st, err := w.store.Load()
		first := st.Delivery("t-1.1.0")
		if err != nil || !left || d == nil || first == nil || st.Pinned("1.2.0") != nil {
			t.Fatalf("%s: %+v, %v", behaviour, st, err)
		}
		if keeps && (st.Good != "1.1.0" || first.Outcome != taskcatalog.UpdateConfirmed) || !keeps && (w.agent.version != "1.0.0" || first.Outcome != taskcatalog.UpdateRolledBack) {
			t.Errorf("%s: %+v, %+v; %+v runs", behaviour, first, st, w.agent)
		}
	}
}
