package selfupdate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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
}

// Systemd is what an update asks of systemd.
type Systemd interface {
	// Start starts a unit and returns when it runs; Launch only asks for it.
	Start(ctx context.Context, unit string) error
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
	// Reach asks the broker something harmless as the node, and reports whether it
	// answered as it should.
	Reach func(context.Context, *Trial) bool
	// Sleep waits: time is the tests'.
	Sleep func(context.Context, time.Duration) error

	// What was seen of the present start of the new version, in ticks.
	unready, steady, reaches, silent time.Duration
	counted                          time.Duration // watched, and not written down yet
}

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
		st, err := w.Store.Load()
		if err != nil {
			return err
		}
		if st.Trial == nil {
			return w.tidy(st)
		}
		wait := tick
		if err := w.turn(ctx, st.Trial); err == nil {
			again = retryFirst
		} else {
			if ctx.Err() != nil {
				return nil
			}
			w.Log.Error("cannot go on with the update; trying again", zap.String("step", string(st.Trial.Step)), zap.Error(err))
			wait, again = again, min(2*again, retryMost)
		}
		if err := w.Sleep(ctx, wait); err != nil {
			return nil // asked to stop: the next start goes on
		}
	}
}

// tidy does what a verdict leaves to do, and a crash may have left.
func (w *Watcher) tidy(st *State) error {
	s := w.Store
	if _, err := s.lib.Stat(programOf(st.Good)); st.Good != "" && err == nil {
		if err := s.link(s.lib, good, versions+"/"+st.Good); err != nil {
			return err
		}
	}
	return errors.Join(s.remove(s.state, beforeDir), s.remove(s.state, beforeDir+temporary), s.Collect(""))
}

// turn does the next thing.
func (w *Watcher) turn(ctx context.Context, t *Trial) error {
	switch t.Step {
	case Armed:
		return w.begin(ctx, t)
	case Watching:
		return w.watch(ctx, t)
	}
	return w.revert(ctx, t)
}

// begin makes the switch. Each part may have been done before a crash.
func (w *Watcher) begin(ctx context.Context, t *Trial) error {
	w.Log.Info("switching the agent", zap.String("from", t.FromVersion), zap.String("to", t.ToVersion), zap.String("delivery", t.ID))
	s, began := w.Store, w.Store.now().UTC()
	was := s.Current()
	if was == "" || was == t.To {
		was = s.backTo(t)
	}
	if err := w.stop(ctx); err != nil {
		return w.backOut(ctx, was, err)
	}
	if s.Current() != t.To { // else the new version may have run already
		err := w.keepBefore()
		if err == nil {
			err = s.switchTo(t.To)
		}
		if err != nil {
			return w.giveUp(ctx, t, was, err)
		}
	}
	err := w.change(t, func(t *Trial) {
		t.Step, t.BootID, t.SwitchedAt = Watching, w.BootID, began
	})
	if !w.isAt(t, Watching) { // or someone has decided otherwise meanwhile
		return w.backOut(ctx, was, err)
	}
	return errors.Join(err, w.launch(ctx))
}

// backOut has the version that ran run on, where the switch was not made or cannot be
// written down.
func (w *Watcher) backOut(ctx context.Context, was string, why error) error {
	return errors.Join(why, w.Store.switchTo(was), w.launch(ctx))
}

// giveUp leaves the old version where the disk does not let the switch be made.
func (w *Watcher) giveUp(ctx context.Context, t *Trial, was string, why error) error {
	w.Log.Error("cannot switch the agent", zap.Error(why))
	return w.backOut(ctx, was, w.change(t, func(t *Trial) {
		t.Step, t.Reason, t.Message = Reverting, CodeNoSpace, taskcatalog.Clean("the switch could not be made: "+why.Error(), taskcatalog.MaxText)
	}))
}

// stop stops the agent, and launch starts it. A watcher that is asked to stop between
// the two goes on to the second, and one that systemd does not answer tries again.
func (w *Watcher) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), jobTime)
	defer cancel()
	return w.Systemd.Stop(ctx, AgentUnit)
}

func (w *Watcher) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), jobTime)
	defer cancel()
	return w.Systemd.Launch(ctx, AgentUnit)
}

// watch looks once, and acts on what is seen.
func (w *Watcher) watch(ctx context.Context, t *Trial) error {
	look, cancel := context.WithTimeout(ctx, jobTime)
	u, err := w.Systemd.Look(look, AgentUnit)
	cancel()
	if err != nil {
		return err
	}
	if u.Invocation == "" || t.Starts == 0 && dead(u) {
		// Nobody has started it yet: the watcher ended between the switch and that.
		if err := w.launch(ctx); err != nil {
			return err
		}
	}
	before := *t
	w.see(t, u)
	w.silent += tick
	if w.silent >= reachFirst && w.steady == 0 && t.Reached {
		w.silent -= reachEvery
		ask, cancel := context.WithTimeout(ctx, reachTime)
		if w.Reach(ask, t) {
			w.reaches += reachEvery
		} else {
			w.reaches = 0
		}
		cancel()
	}
	o := Observation{
		Watched: time.Duration(t.WatchedSeconds)*time.Second + w.counted, Exits: max(t.Starts-1, 0), Boots: t.Boots,
		Ready: u.Active == "active", Unready: w.unready, Contact: w.steady > 0, Steady: w.steady, Reaches: w.reaches,
	}
	if t.Starts > 0 && ended(u) {
		o.Exits++
	}
	verdict, code, message := t.Decide(o)
	switch verdict {
	case Confirm:
		return w.confirm(t)
	case Revert:
		w.Log.Warn("putting the version before back: "+message, zap.String("version", t.ToVersion), zap.String("code", string(code)))
		return w.change(t, func(t *Trial) { t.Step, t.Reason, t.Message = Reverting, code, message })
	}
	w.counted += tick
	if w.counted >= saveEvery || before.Starts != t.Starts || before.BootID != t.BootID {
		seen := *t
		seen.WatchedSeconds += int(w.counted / time.Second)
		w.counted %= time.Second
		return w.change(t, func(now *Trial) {
			now.WatchedSeconds, now.BootID, now.Boots, now.Starts, now.Invocation = seen.WatchedSeconds, seen.BootID, seen.Boots, seen.Starts, seen.Invocation
		})
	}
	return nil
}

// see takes in which start of the new version this is.
func (w *Watcher) see(t *Trial, u Unit) {
	if t.BootID != w.BootID {
		t.BootID, t.Starts, t.Invocation = w.BootID, 0, ""
		t.Boots++
	}
	if u.Invocation != "" && u.Invocation != t.Invocation && !dead(u) {
		t.Invocation = u.Invocation
		t.Starts++
		w.unready, w.steady = 0, 0
	}
	if u.Active == "active" {
		w.unready = 0
	} else {
		w.unready += tick
	}
	if m, ok := w.Store.contact(); ok && m.Trial == t.ID && m.Invocation == t.Invocation {
		w.steady += tick
	}
}

// dead is a unit at rest: it was stopped, or never started.
func dead(u Unit) bool { return u.Active == "inactive" }

// ended is a unit whose program has ended by itself.
func ended(u Unit) bool { return strings.HasPrefix(u.Sub, "auto-restart") || u.Active == "failed" }

// confirm makes the new version the one that is known to work.
func (w *Watcher) confirm(t *Trial) error {
	d := w.delivery(t, taskcatalog.UpdateConfirmed)
	err := w.Store.Change(func(st *State) error {
		if st.Trial == nil || st.Trial.ID != t.ID || st.Trial.Step != Watching {
			return nil // someone has decided otherwise meanwhile
		}
		st.Good, st.Previous = t.To, t.From
		if st.Staged == t.To {
			st.Staged = ""
		}
		st.unpin(t.ToVersion)
		st.ended(d)
		return nil
	})
	if err != nil {
		return err
	}
	w.Log.Info("the new version is confirmed", zap.String("version", t.ToVersion), zap.Float64("seconds", d.SwitchSeconds))
	return nil
}

// revert puts the old version back and has it run, then says so.
func (w *Watcher) revert(ctx context.Context, t *Trial) error {
	s := w.Store
	if err := w.stop(ctx); err != nil {
		return errors.Join(err, w.launch(ctx))
	}
	back := s.backTo(t)
	err := s.switchTo(back)
	var restored []string
	if err == nil {
		restored, err = w.restoreBefore()
	}
	// Where that failed, the copy and the trial stay for another try; meanwhile any agent
	// is better than none.
	if err = errors.Join(err, w.launch(ctx)); err != nil {
		return err
	}
	if len(restored) > 0 {
		t.Message += fmt.Sprintf("; it had damaged the node's %s, which was put back", strings.Join(restored, " and "))
	}
	if back != t.From {
		t.Message += fmt.Sprintf("; %s is gone from the disk, and slot %s runs instead", t.FromVersion, back)
	}
	d := w.delivery(t, taskcatalog.UpdateRolledBack)
	err = s.Change(func(st *State) error {
		st.Good = back
		if t.Reason != CodeNoSpace && t.Reason != CodeByHand {
			st.pin(Pin{Version: t.ToVersion, Reason: t.Reason, Message: t.Message, ID: t.ID, At: s.now().UTC()})
		}
		if st.Previous == t.To {
			st.Previous = ""
		}
		st.ended(d)
		return nil
	})
	if err != nil {
		return err
	}
	w.Log.Warn("the version before runs again", zap.String("version", t.FromVersion), zap.Float64("seconds", d.SwitchSeconds))
	return nil
}

// backTo is the slot to go back to. Where dpkg has taken that away meanwhile, it is the
// one that dpkg brought; any agent is better than none.
func (s *Store) backTo(t *Trial) string {
	for _, slot := range []string{t.From, s.leads(packaged)} {
		if _, err := s.lib.Stat(programOf(slot)); slot != "" && err == nil {
			return slot
		}
	}
	return t.To
}

func (w *Watcher) delivery(t *Trial, outcome taskcatalog.UpdateOutcome) taskcatalog.AgentDelivery {
	now := w.Store.now().UTC()
	d := taskcatalog.AgentDelivery{ID: t.ID, From: t.FromVersion, To: t.ToVersion, Outcome: outcome, Reason: t.Reason, Message: t.Message, At: now}
	if !t.SwitchedAt.IsZero() {
		d.SwitchSeconds = max(now.Sub(t.SwitchedAt).Seconds(), 0)
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
