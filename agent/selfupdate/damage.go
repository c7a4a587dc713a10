package selfupdate

import (
	"errors"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/taskcatalog"
)

// A version on trial runs as root and may damage the update's record. The record is then restored
// from the copy beside it, and the version is reverted.
const (
	keptFile    = "state.kept.json"    // state.json as of the switch or of the confirmation
	damagedFile = "state.damaged.json" // the damaged record, kept for an operator to inspect
)

// keepState writes the kept copy: the state as it will be after the switch. The copy is on disk
// before any program of the new version can run.
func (w *Watcher) keepState(t *Trial, began time.Time) error {
	st, err := w.Store.Load()
	if err != nil || st.Trial == nil || st.Trial.ID != t.ID {
		return err // another process has changed the trial; the write after the switch finds out
	}
	w.switched(st.Trial, began)
	return w.Store.put(keptFile, st)
}

// repairedState returns the state to go on from if state.json was damaged while a version was on
// trial: the kept trial, as a trial to revert. Nil: the state is not damaged, or only an operator
// can repair it.
func (s *Store) repairedState() *State {
	st, why := s.read(stateFile)
	if why == nil && st.Trial != nil {
		return nil
	}
	kept, err := s.read(keptFile)
	if err != nil || kept.Trial == nil {
		kept = nil
	}
	switch {
	case kept != nil && s.stateLost(st, why, kept.Trial):
		why = errors.New("the record of the trial is missing from it")
	case errors.Is(why, errNewer) && kept != nil && kept.Trial.Step != Proving: // a version in its proof may write a newer form
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
	t.Message = taskcatalog.Clean("the state file of updates cannot be used: "+why.Error()+"; the damaged file is kept as "+updateDir+"/"+
		damagedFile, taskcatalog.MaxText)
	return kept
}

// stateLost reports whether state.json is missing, or holds neither a trial nor the outcome of the
// kept trial t. Such a state looks like a first start. If the version on trial does not run, its
// trial may have been taken back: lost then returns false, unless the file is missing.
func (s *Store) stateLost(st *State, why error, t *Trial) bool {
	if errors.Is(why, fs.ErrNotExist) {
		return true
	}
	return why == nil && st.Delivery(t.ID) == nil && s.Current() == t.To
}

// shown rebuilds a trial from the links and folders, for when no record of the trial is left; nil:
// they show no trial.
func (s *Store) shown() *State {
	from, to := s.linkTarget(good), s.Current()
	if _, err := s.lib.Stat(programOf(from)); from == "" || to == "" || from == to || err != nil {
		return nil
	}
	st := s.OnDisk()
	st.Trial = &Trial{
		ID: "unknown-" + s.now().UTC().Format("20060102T150405Z"), From: from, To: to, FromVersion: versionIn(from),
		ToVersion: versionIn(to), ArmedAt: s.now().UTC(),
	}
	return st
}

// repairState repairs a damaged state.
func (w *Watcher) repairState() error {
	s := w.Store
	if s.repairedState() == nil {
		return nil
	}
	return s.locked(func() error {
		st := s.repairedState()
		if st == nil {
			return nil
		}
		w.Log.Error("a version on trial damaged the state file of updates, and is rolled back", zap.String("version", st.Trial.ToVersion),
			zap.String("message", st.Trial.Message))
		// After a loss of power between the next two steps state.json is missing, and the kept copy
		// exists.
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
