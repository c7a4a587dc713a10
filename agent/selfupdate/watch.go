package selfupdate

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/taskcatalog"
)

// The units.
const (
	AgentUnit = "hostler-agent.service"
	WatchUnit = "hostler-agent-watch.service"
)

// Unit is systemd's view of a service.
type Unit struct {
	Active     string // ActiveState
	Sub        string // SubState
	Invocation string // of the last start
	Restarts   int    // systemd's own restarts since the last start by hand
}

// Systemd is the part of systemd that an update needs.
type Systemd interface {
	// Restart restarts a unit and returns when it runs. Launch only requests the start of a unit
	// that does not run.
	Restart(ctx context.Context, unit string) error
	Launch(ctx context.Context, unit string) error
	Stop(ctx context.Context, unit string) error
	Look(ctx context.Context, unit string) (Unit, error)
}

// Watcher carries out a trial, from the switch to the verdict. It runs from the fallback's slot,
// and is the only writer of an armed trial, apart from a person's revert.
type Watcher struct {
	Store    *Store
	StateDir string // the agent's state directory
	Parts    []Part
	Systemd  Systemd
	BootID   string
	Log      *zap.Logger
	// Reach polls the broker for no task as the node, as its agent polls, and returns true if the
	// broker answered the poll. instance is the instance of the watched agent; empty: unknown.
	Reach func(ctx context.Context, instance string) bool
	// Proof is how long a confirmed version runs before good moves to it.
	Proof time.Duration
	// Sleep waits: tests replace it.
	Sleep func(context.Context, time.Duration) error

	id   string // id and step say to which trial and step the fields of seen belong
	step Step
	stepMemory
}

// stepMemory is the watcher's memory of a trial's step, in ticks.
type stepMemory struct {
	// Of the present start of the version.
	unready, well, steady, reaches, silent time.Duration
	alive                                  bool          // a start was seen
	counted                                time.Duration // watched, and not written down yet
	running                                time.Duration // since the start of the machine or of the watcher
	failedAt                               time.Time     // since when the version does not work; zero: it works
}

// DefaultProof is the proof of a node without a configured proof. The time is long enough for a
// version that ends minutes after the start or at the first tasks, and short enough that the next
// update rarely begins meanwhile.
const DefaultProof = 5 * time.Minute

const (
	tick = 500 * time.Millisecond
	// The watcher polls the broker from early on, but not while a healthy agent is about to poll
	// for itself.
	reachFirst = 15 * time.Second
	reachEvery = 15 * time.Second
	reachTime  = 4 * time.Second // the watcher is blind meanwhile
	// saveEvery is the most watched time that a loss of power can lose.
	saveEvery = 10 * time.Second
	// Backoff after a failure: each try may stop the agent.
	retryFirst = 5 * time.Second
	retryMost  = time.Minute
	// jobTime limits a systemd job on the agent. It exceeds the unit's stop timeout.
	jobTime = 75 * time.Second
)

// Probe writes to both folders, so that a watcher that could not make the switch does not report
// READY. A watcher with a begun trial goes on as well as it can.
func (w *Watcher) Probe() error {
	s := w.Store
	if s.repairedState() != nil {
		return nil
	}
	st, err := s.Load()
	if err != nil || st.Trial != nil && st.Trial.Step != Armed {
		return err
	}
	for _, in := range []*os.Root{s.lib, s.state} {
		wrote := s.fill(in, probeFile, 0o600, func(to io.Writer) error { _, err := to.Write([]byte(WatchUnit)); return err })
		if err := errors.Join(wrote, s.remove(in, probeFile)); err != nil {
			return taskcatalog.Errorf(CodeWatcher,
				"cannot watch an update: %s cannot be written to: %v (free space, and ReadWritePaths of %s)", in.Name(), err, WatchUnit)
		}
	}
	return nil
}

const probeFile = ".probe"

// Run watches until there is no trial, or ctx ends. Failed steps are retried with backoff, because
// no other process would do them. Run returns an error if the state cannot be read.
func (w *Watcher) Run(ctx context.Context) error {
	again := retryFirst
	for {
		failed := w.repairState()
		if failed == nil {
			st, err := w.Store.Load()
			if err != nil {
				return err
			}
			if st.Trial == nil {
				return w.cleanUp()
			}
			if t := st.Trial; w.id != t.ID || w.step != t.Step {
				w.id, w.step, w.stepMemory = t.ID, t.Step, stepMemory{}
			}
			failed = w.turn(ctx, st.Trial)
		}
		wait := tick
		if failed == nil {
			again = retryFirst
		} else {
			if ctx.Err() != nil {
				return w.suspend()
			}
			w.Log.Error("cannot continue the update; trying again", zap.String("step", string(w.step)), zap.Error(failed))
			wait, again = again, min(2*again, retryMost)
		}
		if err := w.Sleep(ctx, wait); err != nil {
			return w.suspend()
		}
	}
}

// suspend marks the trial when the watcher is asked to stop; the watcher's next start goes on. The
// end of this boot is then not held against the version. In the same boot the counting goes on.
func (w *Watcher) suspend() error {
	if !slices.Contains([]Step{Watching, Proving}, w.step) {
		return nil
	}
	return w.change(&Trial{ID: w.id, Step: w.step}, func(t *Trial) {
		if t.BootID == w.BootID {
			t.BootID += left
		}
	})
}

// left is appended to the id of a boot whose watcher was asked to stop.
const left = " left"

// cleanUp cleans up after a verdict. A crash may have interrupted an earlier cleanUp.
func (w *Watcher) cleanUp() error {
	s := w.Store
	err := s.Change(func(st *State) error {
		if _, err := s.lib.Stat(programOf(st.Good)); st.Good == "" || err != nil {
			return nil
		}
		return s.link(s.lib, good, versions+"/"+st.Good)
	})
	if err != nil {
		return err
	}
	return errors.Join(s.remove(s.state, keptFile), s.remove(s.state, ballastFile), s.remove(s.state, beforeDir),
		s.remove(s.state, beforeDir+temporary), s.Collect())
}

// turn does the next thing.
func (w *Watcher) turn(ctx context.Context, t *Trial) error {
	switch t.Step {
	case Armed:
		return w.begin(ctx, t)
	case Watching, Proving:
		return w.watch(ctx, t)
	case Reverting:
		return w.revert(ctx, t)
	}
	return w.awaitReturn(ctx, t)
}

// watch observes once, and acts on the observation.
func (w *Watcher) watch(ctx context.Context, t *Trial) error {
	u, err := w.look(ctx)
	if err != nil {
		return err
	}
	if inactive(u) && t.Starts > 0 && strings.TrimSuffix(t.BootID, left) == w.BootID {
		return nil // a person has stopped the agent: the start is left to that person
	}
	if u.Invocation == "" || t.Starts == 0 && inactive(u) {
		// The agent was not started yet: the watcher ended between the switch and the start.
		if err := w.launch(ctx); err != nil {
			return err
		}
	}
	before := *t
	w.observe(t, u)
	if t.Step == Watching {
		w.probeBroker(ctx, t)
	}
	o := Observation{
		Watched: time.Duration(t.WatchedSeconds)*time.Second + w.counted, Exits: max(t.Starts-1, 0), Boots: t.Boots, Proof: w.Proof,
		Ready: u.Active == "active", Unready: w.unready, Contact: w.steady > 0, Steady: w.steady, Reaches: w.reaches,
	}
	if t.Starts > 0 && ended(u) {
		o.Exits++
		w.recordFailure()
	}
	verdict, code, message := t.Decide(o)
	switch verdict {
	case Confirm:
		return w.confirm(t)
	case Keep:
		return w.keep(t)
	case Revert:
		w.Log.Warn("restoring the earlier version: "+message, zap.String("version", t.ToVersion), zap.String("code", string(code)))
		at := w.downSince(t, code)
		return w.change(t, func(t *Trial) { t.Step, t.Reason, t.Message, t.FailedAt = Reverting, code, message, at })
	}
	w.counted += tick
	if w.counted >= saveEvery || before != *t {
		return w.save(t)
	}
	return nil
}

func (w *Watcher) look(ctx context.Context) (Unit, error) {
	ctx, cancel := context.WithTimeout(ctx, jobTime)
	defer cancel()
	return w.Systemd.Look(ctx, AgentUnit)
}

// probeBroker polls the broker if the new version has not been answered for a while.
func (w *Watcher) probeBroker(ctx context.Context, t *Trial) {
	if w.silent += tick; w.silent < reachFirst || w.steady > 0 || !t.Reached {
		return
	}
	w.silent -= reachEvery
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	if w.Reach(ctx, w.Store.instance(t.Invocation)) {
		w.reaches += reachEvery
	} else {
		w.reaches = 0
	}
}

// downSince returns from when on the node had no working version.
func (w *Watcher) downSince(t *Trial, code taskcatalog.Code) time.Time {
	switch {
	case code == CodeNotReady:
		return w.Store.now().UTC().Add(-w.unready)
	case code == CodeNoContact:
		return t.SwitchedAt
	case w.failedAt.IsZero():
		return w.Store.now().UTC()
	}
	return w.failedAt
}

// save records the observation, so that a loss of power loses little watched time.
func (w *Watcher) save(t *Trial) error {
	seen := *t
	seen.WatchedSeconds += int(w.counted / time.Second)
	w.counted %= time.Second
	return w.change(t, func(now *Trial) {
		now.WatchedSeconds, now.BootID, now.Boots, now.Starts, now.Invocation = seen.WatchedSeconds, seen.BootID, seen.Boots, seen.Starts,
			seen.Invocation
	})
}

// observe updates the trial's counts from the unit's present start.
func (w *Watcher) observe(t *Trial, u Unit) {
	if boot, asked := strings.CutSuffix(t.BootID, left); boot != w.BootID {
		if boot != "" && !asked {
			t.Boots++
		}
		t.Starts, t.Invocation = 0, ""
	}
	t.BootID = w.BootID
	if w.running += tick; w.running >= stableTime {
		t.Boots = 0
	}
	if u.Invocation != "" && u.Invocation != t.Invocation && !inactive(u) {
		if u.Restarts == 0 { // started by hand, or with the machine
			t.Starts = 0
		} else if t.Starts > 0 {
			w.recordFailure()
		}
		t.Invocation = u.Invocation
		t.Starts++
		w.unready, w.steady, w.well = 0, 0, 0
		if t.Step == Proving {
			t.WatchedSeconds, w.counted = 0, 0
		}
	}
	if u.Active == "active" {
		w.unready = 0
		if w.well += tick; w.well >= settle {
			w.failedAt = time.Time{}
		}
	} else {
		w.unready += tick
	}
	if m, ok := w.Store.contact(); ok && m.Trial == t.ID && m.Invocation == t.Invocation {
		w.steady += tick
	}
}

// recordFailure records since when the version does not work.
func (w *Watcher) recordFailure() {
	if w.failedAt.IsZero() {
		w.failedAt = w.Store.now().UTC()
	}
}

// inactive reports whether a unit is at rest: it was stopped, or never started.
func inactive(u Unit) bool { return u.Active == "inactive" }

// ended reports whether a unit's program has ended by itself.
func ended(u Unit) bool { return strings.HasPrefix(u.Sub, "auto-restart") || u.Active == "failed" }

func (w *Watcher) delivery(t *Trial, outcome taskcatalog.UpdateOutcome, since time.Time) taskcatalog.AgentDelivery {
	now := w.Store.now().UTC()
	d := taskcatalog.AgentDelivery{
		ID: t.ID, From: t.FromVersion, To: t.ToVersion, Outcome: outcome, Reason: t.Reason, Message: t.Message,
		At: now,
	}
	if !since.IsZero() {
		d.SwitchSeconds = max(now.Sub(since).Seconds(), 0)
	}
	return d
}

// change writes a step of this trial. A change made by a person meanwhile stands.
func (w *Watcher) change(t *Trial, do func(*Trial)) error {
	return w.Store.Change(func(st *State) error {
		if st.Trial == nil || st.Trial.ID != t.ID || st.Trial.Step != t.Step {
			return nil
		}
		do(st.Trial)
		return nil
	})
}

// isAt reports whether the trial on disk has a step, even if the write returned an error.
func (w *Watcher) isAt(t *Trial, step Step) bool {
	st, err := w.Store.Load()
	return err == nil && st.Trial != nil && st.Trial.ID == t.ID && st.Trial.Step == step
}
