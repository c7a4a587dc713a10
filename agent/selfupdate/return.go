package selfupdate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/hostler/hostler/taskcatalog"
)

// revert switches back to the old version and starts it.
func (w *Watcher) revert(ctx context.Context, t *Trial) error {
	s := w.Store
	failedAt := t.FailedAt
	if failedAt.IsZero() { // reverted by a person
		failedAt = s.now().UTC()
	}
	if err := w.stop(ctx); err != nil {
		return errors.Join(err, w.launch(ctx))
	}
	back := s.revertTarget(t)
	err := s.switchTo(back)
	var restored []string
	if err == nil {
		restored, err = w.restoreBefore(w.mayHaveTakenTasks(t))
	}
	// If this fails, the copy and the trial stay for another try; meanwhile any agent is better
	// than none.
	if err = errors.Join(err, w.launch(ctx)); err != nil {
		return err
	}
	return w.change(t, func(t *Trial) {
		if len(restored) > 0 {
			t.Message += fmt.Sprintf("; the version damaged the node's %s, which was restored", strings.Join(restored, " and "))
		}
		if back != t.From {
			t.Message += fmt.Sprintf("; %s is missing on the disk, and slot %s runs instead", t.FromVersion, back)
		}
		t.Step, t.FailedAt = Returning, failedAt
	})
}

// mayHaveTakenTasks reports whether tasks may have been taken since the copy of the state was made.
// A version that was never confirmed takes none.
func (w *Watcher) mayHaveTakenTasks(t *Trial) bool {
	st, err := w.Store.Load()
	unknown := t.Reason == CodeStateDamaged && t.SwitchedAt.IsZero()
	return err != nil || unknown || t.Over != nil || slices.ContainsFunc(st.Deliveries,
		func(d taskcatalog.AgentDelivery) bool { return d.ID == t.ID })
}

// awaitReturn waits until the old version is ready, and records only then that it runs.
func (w *Watcher) awaitReturn(ctx context.Context, t *Trial) error {
	u, err := w.look(ctx)
	if err != nil {
		return err
	}
	w.alive = w.alive || !inactive(u)
	over := w.interruptedProof(t)
	switch {
	case u.Active == "active", over != nil && (ended(u) || w.unready >= readyLimit): // a version in its proof is judged by the proof
		return w.returned(t, over)
	case inactive(u) && !w.alive:
		return w.launch(ctx)
	case inactive(u):
		return nil // a person has stopped it
	}
	w.unready += tick
	if t.Spared || !ended(u) && w.unready < readyLimit {
		return nil
	}
	w.Log.Error("the earlier version was restored, and does not start", zap.String("version", t.FromVersion))
	return w.change(t, func(t *Trial) {
		t.Spared = true
		t.Message += fmt.Sprintf("; %s did not start at once, so %s is not skipped", t.FromVersion, t.ToVersion)
	})
}

// versionFaults are the reasons that are the version's own fault. A machine that loses its power
// three times looks like a machine brought down by the version: such a version is reverted, but not
// skipped.
var versionFaults = []taskcatalog.Code{CodeCrashLoop, CodeNotReady, CodeNoContact, CodeStateDamaged}

// returned records that the old version runs again.
func (w *Watcher) returned(t, over *Trial) error {
	s := w.Store
	d := w.delivery(t, taskcatalog.UpdateRolledBack, t.FailedAt)
	err := s.Change(func(st *State) error {
		if st.Trial == nil || st.Trial.ID != t.ID || st.Trial.Step != Returning {
			return nil
		}
		st.Good = s.Current()
		if over != nil {
			st.Good = over.From
			if err := s.link(s.lib, good, versions+"/"+st.Good); err != nil {
				return err
			}
		}
		if slices.Contains(versionFaults, t.Reason) && !t.Spared {
			st.pin(Pin{Version: t.ToVersion, Reason: t.Reason, Message: t.Message, ID: t.ID, At: s.now().UTC()})
		}
		if st.Previous == t.To {
			st.Previous = ""
		}
		st.Trial = over
		st.ended(d)
		if over != nil {
			return s.put(keptFile, st)
		}
		return nil
	})
	if err == nil {
		w.Log.Warn("the earlier version runs again", zap.String("version", t.FromVersion), zap.Float64("seconds", d.SwitchSeconds))
	}
	return err
}

// interruptedProof returns the interrupted proof that goes on because the switch could not be made;
// nil: there is none.
func (w *Watcher) interruptedProof(t *Trial) *Trial {
	if over := t.Over; over != nil && over.To == w.Store.Current() {
		if _, err := w.Store.lib.Stat(programOf(over.From)); err == nil {
			return over
		}
	}
	return nil
}

// revertTarget returns the slot to go back to: From, or the package's slot if dpkg has removed From
// meanwhile, or To if both are missing. Any agent is better than none.
func (s *Store) revertTarget(t *Trial) string {
	for _, slot := range []string{t.From, s.linkTarget(packaged)} {
		if _, err := s.lib.Stat(programOf(slot)); slot != "" && err == nil {
			return slot
		}
	}
	return t.To
}
