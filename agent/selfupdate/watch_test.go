package selfupdate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

func TestAReleaseIsConfirmedOrPutBack(t *testing.T) {
	always := func(time.Time) bool { return true }
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, behaviour string
		brokerDown      func(time.Time) bool
		outcome         taskcatalog.UpdateOutcome
		code            taskcatalog.Code
		within          time.Duration
	}{
		{"a good one", "fine", nil, taskcatalog.UpdateConfirmed, "", 15 * time.Second},
		{"it exits", "exits", nil, taskcatalog.UpdateRolledBack, CodeCrashLoop, 15 * time.Second},
		{"it exits a little later", "crashes-later", nil, taskcatalog.UpdateRolledBack, CodeCrashLoop, 15 * time.Second},
		{"it hangs", "hangs", nil, taskcatalog.UpdateRolledBack, CodeNotReady, 2 * time.Minute},
		{"it cannot reach the broker", "silent", nil, taskcatalog.UpdateRolledBack, CodeNoContact, 6 * time.Minute},
		{"it damages what the old one must read", "damages", nil, taskcatalog.UpdateRolledBack, CodeCrashLoop, 15 * time.Second},
		{"it puts another ledger in the place of the one that was", "damages by another ledger", nil, taskcatalog.UpdateRolledBack, CodeCrashLoop, 15 * time.Second},
		{"it writes what the old one cannot read beside what that can", "damages by a note", nil, taskcatalog.UpdateRolledBack, CodeCrashLoop, 15 * time.Second},
		{"it spoils what was decided of it", "damages updates", nil, taskcatalog.UpdateRolledBack, CodeStateDamaged, 15 * time.Second},
		{"it spoils what was decided of it, and works", "damages updates and runs", nil, taskcatalog.UpdateRolledBack, CodeStateDamaged, 15 * time.Second},
		{"it empties it, and works", "damages updates, emptied and runs", nil, taskcatalog.UpdateRolledBack, CodeStateDamaged, 15 * time.Second},
		{"it removes it, and works", "damages updates, gone and runs", nil, taskcatalog.UpdateRolledBack, CodeStateDamaged, 15 * time.Second},
		{"it makes a folder of it", "damages updates, a folder", nil, taskcatalog.UpdateRolledBack, CodeStateDamaged, 15 * time.Second},
		{"it writes a newer form before it was confirmed", "damages updates, a newer form and runs", nil, taskcatalog.UpdateRolledBack, CodeStateDamaged, 15 * time.Second},
		{
			"the broker is away for longer than the window", "fine",
			func(now time.Time) bool { return now.Before(begin.Add(time.Hour)) }, taskcatalog.UpdateConfirmed, "", 61 * time.Minute,
		},
		{
			"the broker is away, and comes back to a version that cannot reach it", "silent",
			func(now time.Time) bool { return now.Before(begin.Add(time.Hour)) }, taskcatalog.UpdateRolledBack, CodeNoContact, 63 * time.Minute,
		},
		{"the broker is away, and the version exits", "exits", always, taskcatalog.UpdateRolledBack, CodeCrashLoop, 15 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			if c.brokerDown != nil {
				w.brokerDown = c.brokerDown
			}
			if err := w.update(w.publish("1.1.0", c.behaviour)); err != nil {
				t.Fatal(err)
			}
			d := w.settled()
			if d == nil || d.Outcome != c.outcome || d.Reason != c.code {
				t.Fatalf("%+v, want %s %s", d, c.outcome, c.code)
			}
			if took := time.Duration(d.SwitchSeconds * float64(time.Second)); took > c.within {
				t.Errorf("it took %s", took)
			}
			runs, pins := "1.1.0", 0
			if c.outcome == taskcatalog.UpdateRolledBack {
				runs, pins = "1.0.0", 1
			}
			st, _ := w.store.Load()
			if w.agent.version != runs || w.store.Current() != runs || st.Good != runs || w.store.linkTarget(good) != runs || len(st.Pins) != pins {
				t.Errorf("%s runs, current %s, good %s, %+v", w.agent.version, w.store.Current(), st.Good, st.Pins)
			}
			if raw, err := os.ReadFile(filepath.Join(w.state, "ledger.db")); err != nil || string(raw) != "a sound ledger" {
				t.Errorf("the ledger is %q, %v", raw, err)
			}
			for _, name := range []string{"update/" + beforeDir, "update/" + keptFile, "update/" + ballastFile, "bad.note"} {
				if _, err := os.Stat(filepath.Join(w.state, name)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s is still there: %v", name, err)
				}
			}
			w.launch()
			if w.agent.behaviour != "fine" {
				t.Errorf("the agent that runs in the end is %+v", w.agent)
			}
		})
	}
}

// An outage decides nothing, however long it lasts.
func TestABrokerThatIsAwayRevertsNothing(t *testing.T) {
	w := newWorld(t)
	w.brokerDown = func(time.Time) bool { return true }
	if err := w.update(w.publish("1.1.0", "fine")); err != nil {
		t.Fatal(err)
	}
	watcher, turns := w.watcher(), 0
	sleep := watcher.Sleep
	watcher.Sleep = func(ctx context.Context, d time.Duration) error {
		if turns++; turns > 2*60*60*3 { // three hours
			return errors.New("enough")
		}
		return sleep(ctx, d)
	}
	if err := watcher.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	st, err := w.store.Load()
	if err != nil || st.Trial == nil || st.Trial.Step != Watching || w.agent.version != "1.1.0" || len(st.Pins)+len(st.Deliveries) > 0 {
		t.Fatalf("%+v %v, %s runs", st, err, w.agent.version)
	}
	if st.Trial.WatchedSeconds < 10_000 {
		t.Errorf("only %d seconds were counted", st.Trial.WatchedSeconds)
	}
}

// Power fails at every change of the disk, for a good release and for bad ones. Afterwards an agent
// works, and the record of the update is true.
func TestALossOfPowerAtAnyPointLeavesAnAgentAndTheTruth(t *testing.T) {
	for behaviour, outcome := range map[string]taskcatalog.UpdateOutcome{
		"fine": taskcatalog.UpdateConfirmed, "exits": taskcatalog.UpdateRolledBack, "damages by a note and more": taskcatalog.UpdateRolledBack,
		"damages updates": taskcatalog.UpdateRolledBack, "damages updates, emptied and runs": taskcatalog.UpdateRolledBack,
		"test-fails": taskcatalog.UpdateRefused,
	} {
		t.Run(behaviour, func(t *testing.T) {
			points := 0
			for cut := 0; ; cut++ {
				w := newWorld(t)
				again := cut%7 + 1 // changes after the first loss, the power fails once more
				p := w.publish("1.1.0", behaviour)
				w.cut, w.changes = cut, 0
				err := w.update(p)
				if !w.dead() && err == nil {
					w.settled()
				}
				if !w.dead() {
					break // ended before so many changes
				}
				points++
				w.cut, w.changes = again, 0
				w.powerOn()
				w.pass(time.Second) // the agent is up before the watcher
				if w.watch {
					w.settled()
				}
				w.cut = -1
				w.powerOn()
				w.pass(time.Second) // the agent is up before the watcher
				w.truth(cut, p, outcome)
				if t.Failed() {
					t.Fatalf("the power went before %q (change %d)", w.last, cut)
				}
				_ = w.store.Close()
			}
			if points < 12 {
				t.Errorf("only %d changes", points)
			}
			t.Logf("%d points", points)
		})
	}
}

// truth lets the machine go on after a loss of power.
func (w *world) truth(cut int, p published, outcome taskcatalog.UpdateOutcome) {
	w.Helper()
	if w.watch {
		w.settled()
	}
	st, err := w.store.Load()
	if err != nil {
		w.Errorf("the state cannot be read: %v", err)
		return
	}
	if st.Trial != nil {
		// An agent that finds a trial starts the watcher.
		w.settled()
		st, _ = w.store.Load()
	}
	switch d := st.Delivery(p.want.ID); {
	case st.Trial != nil:
		w.Errorf("the trial does not end: %+v", st.Trial)
	case d != nil && d.Outcome != outcome:
		w.Errorf("%+v, want %s", d, outcome)
	case d == nil: // the task was interrupted: nothing was switched, and another task does it
		if w.agent.version != "1.0.0" || w.store.Current() != "1.0.0" {
			w.Errorf("%s runs and nobody says why", w.agent.version)
		}
		err := w.update(p)
		if outcome == taskcatalog.UpdateRefused {
			if code := taskcatalog.CodeOf(err, ""); code != CodeSelfTest && code != CodePinned {
				w.Errorf("the next task: %v", err)
			}
			break
		}
		if err != nil {
			w.Errorf("the next task: %v", err)
			return
		}
		if d := w.settled(); d == nil || d.Outcome != outcome {
			w.Errorf("the next task: %+v, want %s", d, outcome)
		}
		st, _ = w.store.Load()
	}
	n := 0
	for _, d := range st.Deliveries {
		if d.ID == p.want.ID {
			n++
		}
	}
	runs := "1.0.0"
	if outcome == taskcatalog.UpdateConfirmed {
		runs = "1.1.0"
	}
	if w.agent == nil || w.agent.version != runs || w.store.Current() != runs {
		w.Errorf("%+v runs, current %s, want %s", w.agent, w.store.Current(), runs)
		return
	}
	if n > 1 || outcome != taskcatalog.UpdateRefused && n != 1 {
		w.Errorf("%d verdicts on one update", n)
	}
	w.launch()
	w.pass(2 * time.Second)
	if w.agent.behaviour != "fine" || !w.agent.ready {
		w.Errorf("the agent does not work: %+v", w.agent)
	}
	names, err := os.ReadDir(filepath.Join(w.lib, versions))
	if err != nil || len(names) > 2 {
		w.Errorf("%v %v is left", names, err)
	}
	for _, name := range names {
		if strings.HasPrefix(name.Name(), ".") && outcome != taskcatalog.UpdateRefused {
			w.Errorf("%s is left", name)
		}
	}
}
