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

// Unit is what systemd says of a service.
type Unit struct {
	Active     string // ActiveState
	Sub        string // SubState
	Invocation string // of its last start
	Restarts   int    // how often systemd has started it again by itself; a start by hand begins anew
}

// Systemd is what an update asks of systemd.
type Systemd interface {
	// Restart starts a unit anew and returns when it runs; Launch only asks for the start
	// of one that does not run.
	Restart(ctx context.Context, unit string) error
	Launch(ctx context.Context, unit string) error
	Stop(ctx context.Context, unit string) error
	Look(ctx context.Context, unit string) (Unit, error)
}

// Watcher carries a trial out, from the switch to the verdict. It belongs to the slot
// that is gone back to, and is the one writer of a trial once that is armed.
type Watcher struct {
	Store    *Store
	StateDir string // the agent's
	Parts    []Part
	Systemd  Systemd
	BootID   string
	Log      *zap.Logger
	// Reach asks the broker for nothing as the node, as its agent asks for tasks, and
	// reports whether it answered as it should. The instance is that of the agent in whose
	// place it asks; empty: it is not known.
	Reach func(ctx context.Context, instance string) bool
	// Proof is how long a confirmed version runs before good moves to it.
	Proof time.Duration
	// Sleep waits: time is the tests'.
	Sleep func(context.Context, time.Duration) error

	id   string // of the trial, and step its step, that what follows was seen of
	step Step
	seen
}

// seen is what a watcher keeps in mind of a step of a trial, in ticks.
type seen struct {
	// Of the present start of the version.
	unready, well, steady, reaches, silent time.Duration
	alive                                  bool          // one was seen
	counted                                time.Duration // watched, and not written down yet
	running                                time.Duration // since the machine started, or the watcher
	failedAt                               time.Time     // since when it does not work; zero: it does
}

// DefaultProof is the proof of a node whose configuration says nothing of it: long
// enough for a version that ends minutes after it began, or at its first tasks, and
// short enough for nobody to begin the next update within it.
const DefaultProof = 5 * time.Minute

const (
	tick = 500 * time.Millisecond
	// The broker is asked from the beginning on, but not while an agent that is well is
	// about to ask it itself.
	reachFirst = 15 * time.Second
	reachEvery = 15 * time.Second
	reachTime  = 4 * time.Second // meanwhile nothing else is seen
	// saveEvery is how much of the window a loss of power may give back.
	saveEvery = 10 * time.Second
	// What failed is tried again: each try may stop the agent.
	retryFirst = 5 * time.Second
	retryMost  = time.Minute
	// jobTime is how long systemd may take over the agent: more than its stop may last.
	jobTime = 75 * time.Second
)

// Probe writes to both folders, so that a watcher that could not make the switch does
// not say that it is ready. One that has begun goes on as well as it can.
func (w *Watcher) Probe() error {
	s := w.Store
	if s.mended() != nil {
		return nil
	}
	st, err := s.Load()
	if err != nil || st.Trial != nil && st.Trial.Step != Armed {
		return err
	}
	for _, in := range []*os.Root{s.lib, s.state} {
		wrote := s.fill(in, probeFile, 0o600, func(to io.Writer) error { _, err := to.Write([]byte(WatchUnit)); return err })
		if err := errors.Join(wrote, s.remove(in, probeFile)); err != nil {
			return taskcatalog.Errorf(CodeWatcher, "cannot watch an update: %s cannot be written to: %v (free space, and ReadWritePaths of %s)", in.Name(), err, WatchUnit)
		}
	}
	return nil
}

const probeFile = ".probe"

// Run watches until there is no trial, or ctx ends. What cannot be done now is tried
// again: there is nobody else to do it.
func (w *Watcher) Run(ctx context.Context) error {
	again := retryFirst
	for {
		failed := w.mend()
		if failed == nil {
			st, err := w.Store.Load()
			if err != nil {
				return err
			}
			if st.Trial == nil {
				return w.tidy()
			}
			if t := st.Trial; w.id != t.ID || w.step != t.Step {
				w.id, w.step, w.seen = t.ID, t.Step, seen{}
			}
			failed = w.turn(ctx, st.Trial)
		}
		wait := tick
		if failed == nil {
			again = retryFirst
		} else {
			if ctx.Err() != nil {
				return w.leave()
			}
			w.Log.Error("cannot go on with the update; trying again", zap.String("step", string(w.step)), zap.Error(failed))
			wait, again = again, min(2*again, retryMost)
		}
		if err := w.Sleep(ctx, wait); err != nil {
			return w.leave()
		}
	}
}

// leave is what a watcher does that is asked to stop; its next start goes on. A boot
// that ends like this says nothing of the version, and in the same boot it goes on with
// what was counted.
func (w *Watcher) leave() error {
	if !slices.Contains([]Step{Watching, Proving}, w.step) {
		return nil
	}
	return w.change(&Trial{ID: w.id, Step: w.step}, func(t *Trial) {
		if t.BootID == w.BootID {
			t.BootID += left
		}
	})
}

// left ends the id of a boot whose watcher was asked to stop.
const left = " left"

// tidy does what a verdict leaves to do, and a crash may have left.
func (w *Watcher) tidy() error {
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
	return errors.Join(s.remove(s.state, keptFile), s.remove(s.state, ballastFile), s.remove(s.state, beforeDir), s.remove(s.state, beforeDir+temporary), s.Collect())
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

// watch looks once, and acts on what is seen.
func (w *Watcher) watch(ctx context.Context, t *Trial) error {
	u, err := w.look(ctx)
	if err != nil {
		return err
	}
	if dead(u) && t.Starts > 0 && strings.TrimSuffix(t.BootID, left) == w.BootID {
		return nil // a person has stopped it, and it is that person's to start it
	}
	if u.Invocation == "" || t.Starts == 0 && dead(u) {
		// Nobody has started it yet: the watcher ended between the switch and that.
		if err := w.launch(ctx); err != nil {
			return err
		}
	}
	before := *t
	w.see(t, u)
	if t.Step == Watching {
		w.ask(ctx, t)
	}
	o := Observation{
		Watched: time.Duration(t.WatchedSeconds)*time.Second + w.counted, Exits: max(t.Starts-1, 0), Boots: t.Boots, Proof: w.Proof,
		Ready: u.Active == "active", Unready: w.unready, Contact: w.steady > 0, Steady: w.steady, Reaches: w.reaches,
	}
	if t.Starts > 0 && ended(u) {
		o.Exits++
		w.fails()
	}
	verdict, code, message := t.Decide(o)
	switch verdict {
	case Confirm:
		return w.confirm(t)
	case Keep:
		return w.keep(t)
	case Revert:
		w.Log.Warn("putting the version before back: "+message, zap.String("version", t.ToVersion), zap.String("code", string(code)))
		at := w.since(t, code)
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

// ask asks the broker, where the new version has not been answered for a while.
func (w *Watcher) ask(ctx context.Context, t *Trial) {
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

// since is when the node began to be without a version that works.
func (w *Watcher) since(t *Trial, code taskcatalog.Code) time.Time {
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

// save writes down what was seen, so that a loss of power gives little back.
func (w *Watcher) save(t *Trial) error {
	seen := *t
	seen.WatchedSeconds += int(w.counted / time.Second)
	w.counted %= time.Second
	return w.change(t, func(now *Trial) {
		now.WatchedSeconds, now.BootID, now.Boots, now.Starts, now.Invocation = seen.WatchedSeconds, seen.BootID, seen.Boots, seen.Starts, seen.Invocation
	})
}

// see takes in which start of the new version this is.
func (w *Watcher) see(t *Trial, u Unit) {
	if boot, asked := strings.CutSuffix(t.BootID, left); boot != w.BootID {
		if boot != "" && !asked {
			t.Boots++
		}
		t.Starts, t.Invocation = 0, ""
	}
	t.BootID = w.BootID
	if w.running += tick; w.running >= calm {
		t.Boots = 0
	}
	if u.Invocation != "" && u.Invocation != t.Invocation && !dead(u) {
		if u.Restarts == 0 { // by hand, or by the machine's start
			t.Starts = 0
		} else if t.Starts > 0 {
			w.fails()
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

// fails notes since when it does not work.
func (w *Watcher) fails() {
	if w.failedAt.IsZero() {
		w.failedAt = w.Store.now().UTC()
	}
}

// dead is a unit at rest: it was stopped, or never started.
func dead(u Unit) bool { return u.Active == "inactive" }

// ended is a unit whose program has ended by itself.
func ended(u Unit) bool { return strings.HasPrefix(u.Sub, "auto-restart") || u.Active == "failed" }

// confirm says that the new version works. It takes tasks from now on, and is watched
// for a while longer: meanwhile the one before stays the one to go back to.
func (w *Watcher) confirm(t *Trial) error {
	d := w.delivery(t, taskcatalog.UpdateConfirmed, t.SwitchedAt)
	err := w.Store.Change(func(st *State) error {
		if st.Trial == nil || st.Trial.ID != t.ID || st.Trial.Step != Watching {
			return nil // someone has decided otherwise meanwhile
		}
		now := st.Trial
		now.Step, now.WatchedSeconds, now.Boots, now.Starts, now.Invocation, now.BootID = Proving, 0, 0, 1, t.Invocation, t.BootID
		if st.Staged == t.To {
			st.Staged = ""
		}
		st.unpin(t.ToVersion)
		st.ended(d)
		// First: from then on it may have written a newer form.
		return w.Store.put(keptFile, st)
	})
	if err != nil {
		return err
	}
	w.Log.Info("the new version is confirmed", zap.String("version", t.ToVersion), zap.Float64("seconds", d.SwitchSeconds))
	return nil
}

// keep makes the new version the one that is known to work.
func (w *Watcher) keep(t *Trial) error {
	err := w.Store.Change(func(st *State) error {
		if st.Trial == nil || st.Trial.ID != t.ID || st.Trial.Step != Proving {
			return nil
		}
		st.Good, st.Previous, st.Trial = t.To, t.From, nil
		return nil
	})
	if err == nil {
		w.Log.Info("the new version is the one that is gone back to", zap.String("version", t.ToVersion))
	}
	return err
}

func (w *Watcher) delivery(t *Trial, outcome taskcatalog.UpdateOutcome, since time.Time) taskcatalog.AgentDelivery {
	now := w.Store.now().UTC()
	d := taskcatalog.AgentDelivery{ID: t.ID, From: t.FromVersion, To: t.ToVersion, Outcome: outcome, Reason: t.Reason, Message: t.Message, At: now}
	if !since.IsZero() {
		d.SwitchSeconds = max(now.Sub(since).Seconds(), 0)
	}
	return d
}

// change writes a step of this trial. One that a person has decided stands.
func (w *Watcher) change(t *Trial, do func(*Trial)) error {
	return w.Store.Change(func(st *State) error {
		if st.Trial == nil || st.Trial.ID != t.ID || st.Trial.Step != t.Step {
			return nil
		}
		do(st.Trial)
		return nil
	})
}

// isAt reports whether the trial has a step on the disk, whatever became of writing it.
func (w *Watcher) isAt(t *Trial, step Step) bool {
	st, err := w.Store.Load()
	return err == nil && st.Trial != nil && st.Trial.ID == t.ID && st.Trial.Step == step
}
