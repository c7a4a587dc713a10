package selfupdate

import (
	"go.uber.org/zap"

	"github.com/hostler/hostler/taskcatalog"
)

// confirm records that the new version works. The version takes tasks from now on, and is watched
// for a while longer: meanwhile the previous version stays the fallback.
func (w *Watcher) confirm(t *Trial) error {
	d := w.delivery(t, taskcatalog.UpdateConfirmed, t.SwitchedAt)
	err := w.Store.Change(func(st *State) error {
		if st.Trial == nil || st.Trial.ID != t.ID || st.Trial.Step != Watching {
			return nil // another process has changed the trial
		}
		now := st.Trial
		now.Step, now.WatchedSeconds, now.Boots, now.Starts, now.Invocation, now.BootID = Proving, 0, 0, 1, t.Invocation, t.BootID
		if st.Staged == t.To {
			st.Staged = ""
		}
		st.unpin(t.ToVersion)
		st.ended(d)
		// The copy is written first: from then on the version may write a newer form.
		return w.Store.put(keptFile, st)
	})
	if err != nil {
		return err
	}
	w.Log.Info("the new version is confirmed", zap.String("version", t.ToVersion), zap.Float64("seconds", d.SwitchSeconds))
	return nil
}

// keep makes the new version the good one.
func (w *Watcher) keep(t *Trial) error {
	err := w.Store.Change(func(st *State) error {
		if st.Trial == nil || st.Trial.ID != t.ID || st.Trial.Step != Proving {
			return nil
		}
		st.Good, st.Previous, st.Trial = t.To, t.From, nil
		return nil
	})
	if err == nil {
		w.Log.Info("the new version is now the fallback", zap.String("version", t.ToVersion))
	}
	return err
}
