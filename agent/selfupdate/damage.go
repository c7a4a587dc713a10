package selfupdate

import (
	"errors"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/taskcatalog"
)

// A version on trial runs as root, and may damage what was decided of it. Then it is put
// back by what is kept beside it.
const (
	keptFile    = "state.kept.json"    // state.json as of the switch, or as of when the version was confirmed
	damagedFile = "state.damaged.json" // what was found in its place, for people
)

// keepState keeps the state as it is to be after the switch. That is on disk before any
// program of the new version can run.
func (w *Watcher) keepState(t *Trial, began time.Time) error {
	st, err := w.Store.Load()
	if err != nil || st.Trial == nil || st.Trial.ID != t.ID {
		return err // someone has decided otherwise, which is seen where the switch is written down
	}
	w.switched(st.Trial, began)
	return w.Store.put(keptFile, st)
}

// mended is what to go on from where state.json was damaged while a version was on trial:
// from its trial, as one that is put back. Nil: it was not, or only people can tell.
func (s *Store) mended() *State {
	st, why := s.read(stateFile)
	if why == nil && st.Trial != nil {
		return nil
	}
	kept, err := s.read(keptFile)
	if err != nil || kept.Trial == nil {
		kept = nil
	}
	switch {
	case kept != nil && s.lost(st, why, kept.Trial):
		why = errors.New("it was emptied")
	case errors.Is(why, errNewer) && kept != nil && kept.Trial.Step != Proving: // not before it was confirmed
	case errors.Is(why, errDamaged) && kept != nil:
	case errors.Is(why, errDamaged):
		if kept = s.shown(); kept == nil {
			return nil
		}
	default:
		return nil
	}
	t := kept.Trial
	t.Step, t.Over, t.Reason, t.FailedAt = Reverting, nil, CodeStateDamaged, s.now().UTC()
	t.Message = taskcatalog.Clean("what was decided of updates cannot be read: "+why.Error()+"; what was found is kept as "+updateDir+"/"+damagedFile, taskcatalog.MaxText)
	return kept
}

// lost reports whether a state without a trial is gone, or has nothing of one that has not
// ended: that reads like a beginning. Where the version on trial does not run, the trial may
// have been taken back.
func (s *Store) lost(st *State, why error, t *Trial) bool {
	if errors.Is(why, fs.ErrNotExist) {
		return true
	}
	return why == nil && st.Delivery(t.ID) == nil && s.Current() == t.To
}

// shown is a trial as the folders show it, where nothing is left of what was written of it;
// nil: they show none.
func (s *Store) shown() *State {
	from, to := s.leads(good), s.Current()
	if _, err := s.lib.Stat(programOf(from)); from == "" || to == "" || from == to || err != nil {
		return nil
	}
	st := s.OnDisk()
	st.Trial = &Trial{
		ID: "unknown-" + s.now().UTC().Format("20060102T150405Z"), From: from, To: to, FromVersion: versionIn(from), ToVersion: versionIn(to), ArmedAt: s.now().UTC(),
	}
	return st
}

// mend puts a damaged state right.
func (w *Watcher) mend() error {
	s := w.Store
	if s.mended() == nil {
		return nil
	}
	return s.locked(func() error {
		st := s.mended()
		if st == nil {
			return nil
		}
		w.Log.Error("a version on trial has damaged what was decided of it, and is put back", zap.String("version", st.Trial.ToVersion), zap.String("message", st.Trial.Message))
		// After a loss of power between what follows state.json is gone, and what is kept is there.
		if st.Trial.SwitchedAt.IsZero() {
			if err := s.put(keptFile, st); err != nil {
				return err
			}
		}
		if _, err := s.state.Lstat(stateFile); err == nil {
			if err := errors.Join(s.remove(s.state, damagedFile), s.rename(s.state, stateFile, damagedFile)); err != nil {
				return err
			}
		}
		return s.put(stateFile, st)
	})
}
