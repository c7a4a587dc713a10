package selfupdate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/taskcatalog"
)

// A confirmed version that then ends is reverted, and its delivery is replaced.
func TestAConfirmedVersionIsWatchedForAWhile(t *testing.T) {
	for _, c := range []struct {
		behaviour, runs string
		outcome         taskcatalog.UpdateOutcome
	}{
		{"dies-late", "1.0.0", taskcatalog.UpdateRolledBack},
		{"dies-once", "1.1.0", taskcatalog.UpdateConfirmed},
	} {
		w := newWorld(t)
		w.proof = DefaultProof
		w.arm(c.behaviour)
		confirmed, since := false, time.Time{}
		d := w.between(nil, func() {
			st, err := w.store.Load()
			if err == nil && confirmed && st.unsettled() && st.Delivery("t-1.1.0") != nil {
				t.Errorf("%s: while it is %s it is told as %+v", c.behaviour, st.Trial.Step, st.Delivery("t-1.1.0"))
			}
			if err != nil || st.Trial == nil || st.Trial.Step != Proving || confirmed {
				return
			}
			confirmed, since = true, w.clock
			if d := st.Delivery("t-1.1.0"); d == nil || d.Outcome != taskcatalog.UpdateConfirmed || w.store.Pending() {
				t.Errorf("%s: it takes no task, or nobody is told that it was confirmed: %+v", c.behaviour, d)
			}
			if st.Good != "1.0.0" || w.store.linkTarget(good) != "1.0.0" {
				t.Errorf("%s: %s is gone back to", c.behaviour, st.Good)
			}
		})
		st, err := w.store.Load()
		if err != nil || !confirmed || d == nil || d.Outcome != c.outcome || len(st.Deliveries) != 1 || w.agent.version != c.runs || st.Good != c.runs || w.store.linkTarget(good) != c.runs {
			t.Fatalf("%s: %+v of %+v, %v; %+v runs", c.behaviour, d, st, err, w.agent)
		}
		if back := c.outcome == taskcatalog.UpdateRolledBack; back != (st.Pinned("1.1.0") != nil) || back && (d.Reason != CodeCrashLoop || d.SwitchSeconds > 15) {
			t.Errorf("%s: %+v %+v", c.behaviour, d, st.Pins)
		}
		if took := w.clock.Sub(since); c.outcome == taskcatalog.UpdateConfirmed && took < DefaultProof {
			t.Errorf("it was the good one after %s", took)
		}
	}
}

// An update does not wait for the proof of the previous update. Its fallback is the version known
// to work, not the version in its proof.
func TestAnUpdateTakesTheTurnOfOneThatIsBeingProved(t *testing.T) {
	w := newWorld(t)
	w.proof = time.Hour
	w.arm("fine")
	proving := func() bool {
		st, err := w.store.Load()
		return err == nil && st.Trial != nil && st.Trial.Step == Proving
	}
	begun := false
	d := w.between(nil, func() {
		if proving() && !begun {
			begun = true
			if err := w.update(w.publish("1.2.0", "exits")); err != nil {
				t.Fatal(err)
			}
		}
	})
	st, err := w.store.Load()
	if err != nil || d == nil || d.ID != "t-1.2.0" || d.Outcome != taskcatalog.UpdateRolledBack || d.From != "1.0.0" || w.agent.version != "1.0.0" || len(st.Deliveries) != 2 {
		t.Fatalf("%+v of %+v, %v; %+v runs", d, st, err, w.agent)
	}
	if first := st.Delivery("t-1.1.0"); first == nil || first.Outcome != taskcatalog.UpdateConfirmed || st.Pinned("1.1.0") != nil {
		t.Errorf("%+v, %+v", first, st.Pins)
	}
}

// A person who asks for the previous version during a proof gets it.
func TestAVersionThatIsBeingProvedIsTakenBack(t *testing.T) {
	w := newWorld(t)
	w.proof = time.Hour
	w.arm("fine")
	watcher, asked := w.watcher(), false
	sleep := watcher.Sleep
	watcher.Sleep = func(ctx context.Context, d time.Duration) error {
		st, err := w.store.Load()
		if err == nil && st.Trial != nil && st.Trial.Step == Proving && !asked {
			asked, watcher.Proof = true, 0
			_, err = w.stager().Arm(ctx, w, zap.NewNop(), Switch{ID: "t-2", Running: "1.1.0", Version: "1.1.0", ToVersion: "1.0.0", Contact: time.Second})
		}
		return errors.Join(err, sleep(ctx, d))
	}
	if err := watcher.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	st, err := w.store.Load()
	if d := st.Delivery("t-2"); err != nil || d == nil || d.Outcome != taskcatalog.UpdateConfirmed || w.agent.version != "1.0.0" || st.Good != "1.0.0" || st.Previous != "1.1.0" {
		t.Errorf("%+v %v, %+v runs", st, err, w.agent)
	}
}

// A person's action, or a regular reboot of the machine, is not held against a version.
func TestWhatIsDoneToTheMachineIsNotHeldAgainstAVersion(t *testing.T) {
	for name, does := range map[string]func(w *world, n int){
		"the agent is stopped for an hour": func(w *world, n int) {
			switch {
			case n == 3:
				w.agent, w.stopped = nil, true
			case n == 7200:
				w.stopped = false
				w.launch()
			}
		},
		"the agent is started by hand again and again": func(w *world, n int) {
			if n < 40 && n%5 == 0 {
				w.launch()
			}
		},
	} {
		w := newWorld(t)
		w.arm("fine")
		n := 0
		d := w.between(nil, func() { n++; does(w, n) })
		if st, err := w.store.Load(); err != nil || d == nil || d.Outcome != taskcatalog.UpdateConfirmed || st.Good != "1.1.0" || len(st.Pins) > 0 {
			t.Errorf("%s: %+v, %+v %v", name, d, st, err)
		}
	}
}

func TestAMachineThatGoesDownUnderAVersion(t *testing.T) {
	for _, c := range []struct {
		name     string
		asked    bool          // an orderly shutdown, announced to the services
		lives    time.Duration // how long the machine is up each time
		putsBack bool
	}{
		{"it is started anew", true, 10 * time.Second, false},
		{"its power goes after hours", false, time.Hour, false},
		{"its power goes at once", false, 10 * time.Second, true},
	} {
		w := newWorld(t)
		w.brokerDown = func(time.Time) bool { return true } // the trial lasts
		w.arm("fine")
		for range 4 {
			ctx, cancel := context.WithCancel(t.Context())
			watcher, until := w.watcher(), w.clock.Add(c.lives)
			sleep := watcher.Sleep
			watcher.Sleep = func(ctx context.Context, d time.Duration) error {
				switch {
				case w.clock.Before(until):
					return sleep(ctx, d)
				case c.asked:
					cancel()
					return ctx.Err()
				}
				w.cut, w.changes = 0, 1 // nothing more is written
				return errPowerCut
			}
			_ = watcher.Run(ctx)
			cancel()
			w.cut = -1
			w.powerOn()
		}
		st, err := w.store.Load()
		if err != nil {
			t.Fatal(err)
		}
		if c.putsBack {
			if d := st.Last(); d == nil || d.Reason != CodeBootLoop || len(st.Pins) > 0 || w.agent.version != "1.0.0" {
				t.Errorf("%s: %+v, %+v", c.name, d, st)
			}
		} else if st.Trial == nil || st.Trial.Step != Watching || w.agent.version != "1.1.0" {
			t.Errorf("%s: %+v", c.name, st)
		}
	}
}

// The outcome rolled back is recorded once the previous version is ready, and not before.
func TestAVersionIsPutBackOnceTheOneBeforeItRuns(t *testing.T) {
	for _, c := range []struct {
		wakes time.Duration
		pins  int
		says  string
	}{
		{30 * time.Second, 1, "the version ended twice"},
		{10 * time.Minute, 0, "1.0.0 did not start at once, so"}, // not the version's fault
	} {
		w := newWorld(t)
		w.put("lib/versions/1.0.0/hostler-agent", "1.0.0 wakes")
		w.arm("exits")
		var back time.Time
		d := w.between(nil, func() {
			st, err := w.store.Load()
			if err != nil {
				t.Fatal(err)
			}
			if back.IsZero() && st.Trial != nil && st.Trial.Step == Returning {
				back = w.clock
				w.wakes = back.Add(c.wakes)
			}
			if d := st.Last(); d != nil && !w.agent.ready {
				t.Errorf("after %s: %+v", w.clock.Sub(back), d)
			}
		})
		st, _ := w.store.Load()
		if d == nil || d.Outcome != taskcatalog.UpdateRolledBack || !strings.Contains(d.Message, c.says) || len(st.Pins) != c.pins || !w.agent.ready {
			t.Errorf("%s: %+v, %+v", c.wakes, d, st.Pins)
		}
		if most := c.wakes + 15*time.Second; d.SwitchSeconds < c.wakes.Seconds() || d.SwitchSeconds > most.Seconds() {
			t.Errorf("%s: it says %.1f s", c.wakes, d.SwitchSeconds)
		}
	}
}

func TestAVersionIsSkippedForItsOwnFaultAlone(t *testing.T) {
	failed := errors.New("the self-test did not end within a minute")
	for _, c := range []struct {
		name  string
		fails func(n int, version string) bool // the nth test of all
		code  taskcatalog.Code
		pins  bool
	}{
		{"it fails, and the running one does not", func(_ int, v string) bool { return v == "1.1.0" }, CodeSelfTest, true},
		{"both fail: the configuration is broken", func(int, string) bool { return true }, CodeSelfTest, false},
		{"it fails once: the machine was slow", func(n int, _ string) bool { return n == 1 }, "", false},
	} {
		w := newWorld(t)
		n := 0
		w.testFails = func(version string) error {
			if n++; c.fails(n, version) {
				return failed
			}
			return nil
		}
		_, err := w.stager().Stage(t.Context(), w.publish("1.1.0", "fine").want)
		st, failed := w.store.Load()
		if taskcatalog.CodeOf(err, "") != c.code || failed != nil || (st.Pinned("1.1.0") != nil) != c.pins {
			t.Errorf("%s: %v, %+v", c.name, err, st.Pins)
		}
	}
}

// The previous good version is restored by hand, for the given reason.
func TestAVersionIsPutBackByHand(t *testing.T) {
	w := newWorld(t)
	w.arm("fine")
	w.settled()
	u := &Updater{Stager: *w.stager(), Systemd: w, Running: "1.1.0", Version: "1.1.0", Contact: func() time.Duration { return time.Second }}
	to, err := u.RevertByHand(t.Context(), "by-hand-1", "no GPUs")
	if err != nil || to != "1.0.0" {
		t.Fatalf("%q %v", to, err)
	}
	d := w.settled()
	st, _ := w.store.Load()
	if d == nil || d.ID != "by-hand-1" || d.Outcome != taskcatalog.UpdateConfirmed || d.Reason != CodeByHand || d.Message != "no GPUs" || w.agent.version != "1.0.0" || st.Good != "1.0.0" {
		t.Errorf("%+v, %+v runs, %+v", d, w.agent, st)
	}
	if len(st.Pins) > 0 || !slices.Equal(w.ran[len(w.ran)-1:], []string{"1.0.0"}) {
		t.Errorf("%+v, %v ran", st.Pins, w.ran)
	}
}

// A version that took tasks and then damages the ledger is reverted with a copy that is marked as
// incomplete. A version that took no tasks leaves the copy unmarked.
func TestACopyOfTheStateSaysWhatItDoesNotKnow(t *testing.T) {
	for behaviour, says := range map[string]bool{"damages": false, "damages-late": true} {
		w := newWorld(t)
		w.proof = DefaultProof
		w.arm(behaviour)
		watcher, in := w.watcher(), ""
		mine := parts[1] // the ledger
		mine.Lost = func(dir string, at time.Time) error {
			raw, err := os.ReadFile(filepath.Join(w.state, "ledger.db"))
			if in = dir; err != nil || len(raw) > 0 || !at.Equal(w.clock) {
				t.Errorf("%s: at %s, and there is %q in place already, %v", behaviour, at, raw, err)
			}
			return nil
		}
		watcher.Parts = []Part{mine}
		if err := watcher.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := ""
		if says {
			want = BeforeDir(w.state)
		}
		st, err := w.store.Load()
		if d := st.Last(); err != nil || in != want || d == nil || d.Outcome != taskcatalog.UpdateRolledBack || w.agent.version != "1.0.0" {
			t.Errorf("%s: it was said in %q, want %q; %+v %v", behaviour, in, want, d, err)
		}
	}
}

// A watcher that is stopped and started, as a package upgrade does, continues the count of its
// predecessor.
func TestAWatcherThatIsStoppedKeepsTheExitsThatItSaw(t *testing.T) {
	w := newWorld(t)
	w.proof = DefaultProof
	w.arm("dies-late")
	for range 12 {
		ctx, cancel := context.WithCancel(t.Context())
		watcher, until := w.watcher(), w.clock.Add(15*time.Second) // each watcher sees one end, and never two
		sleep := watcher.Sleep
		watcher.Sleep = func(ctx context.Context, d time.Duration) error {
			if !w.clock.Before(until) {
				cancel()
			}
			return sleep(ctx, d)
		}
		if err := watcher.Run(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	st, err := w.store.Load()
	if d := st.Last(); err != nil || d == nil || d.Outcome != taskcatalog.UpdateRolledBack || d.Reason != CodeCrashLoop || w.agent.version != "1.0.0" {
		t.Errorf("%+v of %+v, %v", d, st.Trial, err)
	}
}

// A watcher that has found no trial ends, even if a trial is armed meanwhile. Until then its unit
// runs, so that a mere start of the unit would have no effect.
func TestAnUpdateThatIsArmedWhileTheWatcherEndsIsWatched(t *testing.T) {
	w := newWorld(t)
	w.proof = 0
	w.arm("fine")
	next := w.publish("1.2.0", "exits")
	armed, step := false, w.store.step
	w.store.step = func(what string) error {
		if what == "remove "+beforeDir && !armed {
			armed = true
			if err := w.update(next); err != nil {
				t.Error(err)
			}
		}
		return step(what)
	}
	d := w.settled()
	st, err := w.store.Load()
	if err != nil || !armed || st.Trial != nil || d == nil || d.ID != "t-1.2.0" || d.Outcome != taskcatalog.UpdateRolledBack || w.agent.version != "1.1.0" {
		t.Errorf("armed: %v; %+v of %+v, %v; %+v runs", armed, d, st.Trial, err, w.agent)
	}
}
