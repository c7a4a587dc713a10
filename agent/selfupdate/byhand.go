package selfupdate

import (
	"context"

	"go.uber.org/zap"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// PinByHand makes the node skip a version.
func (s *Store) PinByHand(version, reason string) error {
	if !release.ValidVersion(version) {
		return taskcatalog.Errorf(taskcatalog.CodeBadParams, "cannot pin %s: not a version", taskcatalog.Clean(version, 80))
	}
	return s.Change(func(st *State) error {
		st.pin(Pin{Version: version, Reason: CodeByHand, Message: taskcatalog.Clean(reason, 300), At: s.now().UTC()})
		return nil
	})
}

// Unpin allows a skipped version again. Code update_not_staged if the version is not skipped.
func (s *Store) Unpin(version string) error {
	return s.Change(func(st *State) error {
		if !st.unpin(version) {
			return taskcatalog.Errorf(CodeNotStaged, "version %s is not skipped on this node (see hostler-agent update show)",
				taskcatalog.Clean(version, 80))
		}
		return nil
	})
}

// Forget removes the slot of a version. The running slot, the fallback and dpkg's slot stay. While
// a release is being staged nothing is removed. Codes: update_not_staged, slot_in_use,
// update_under_way.
func (s *Store) Forget(slot string) error {
	done, err := s.stages(false)
	if err != nil {
		return err
	}
	if done == nil {
		return taskcatalog.Errorf(CodeUnderWay,
			"cannot remove slot %s: a release is being staged; nothing was changed (try again when the staging has ended)",
			taskcatalog.Clean(slot, 80))
	}
	defer done()
	st, err := s.Load()
	if err != nil {
		return err
	}
	if _, err := s.lib.Lstat(programOf(slot)); err != nil || !slotName.MatchString(slot) {
		return taskcatalog.Errorf(CodeNotStaged, "there is no slot %s (see hostler-agent update show)", taskcatalog.Clean(slot, 80))
	}
	for _, used := range []string{s.Current(), s.linkTarget(good), s.linkTarget(packaged), st.Good} {
		if used == slot {
			return taskcatalog.Errorf(CodeSlotInUse, "cannot remove slot %s: it is running, is the fallback, or belongs to the package",
				slot)
		}
	}
	err = s.Change(func(st *State) error {
		if st.Trial != nil {
			return underWay(st.Trial)
		}
		delete(st.Slots, slot)
		if st.Previous == slot {
			st.Previous = ""
		}
		if st.Staged == slot {
			st.Staged = ""
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.collect(s.partialFetch())
}

// RevertByHand goes back to the previous version. It ends a trial, or begins a trial of the version
// that was good before the running version. It returns the version to which the node goes back.
func (u *Updater) RevertByHand(ctx context.Context, id, reason string) (string, error) {
	to := ""
	err := u.Store.Change(func(st *State) error {
		if t := st.Trial; t != nil {
			to = t.FromVersion
			if t.Step != Reverting && t.Step != Returning {
				t.Step, t.Reason, t.Message = Reverting, CodeByHand, taskcatalog.Clean(reason, 300)
			}
		}
		return nil
	})
	if err != nil || to != "" {
		return to, u.resumeAfter(ctx, err)
	}
	st, err := u.Store.Load()
	if err != nil {
		return "", err
	}
	if st.Previous == "" {
		return "", taskcatalog.Errorf(CodeNotStaged, "the node has no earlier version of the agent (see hostler-agent update show)")
	}
	_, err = u.Arm(ctx, u.Systemd, zap.NewNop(), Switch{
		ID: id, Running: u.Running, Version: u.Version, To: st.Previous, Contact: u.Contact(), Force: true,
		Reason: taskcatalog.Clean(reason, 300),
	})
	return st.Slots[st.Previous].Version, err
}

func (u *Updater) resumeAfter(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	return u.ResumeTrial(ctx)
}
