package selfupdate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// DefaultWindow is how long a new version has to reach the broker.
const DefaultWindow = 5 * time.Minute

// freshContact is how recent the old version's contact must be to count as "just
// before": a poll is held for most of a minute.
const freshContact = 2 * time.Minute

// Switch is a request to run another slot.
type Switch struct {
	ID string // the task's id, or by-hand-…
	// Running is the slot of the requesting program, and Version its version.
	Running, Version string
	To               string // a slot; empty: see ToVersion, or the previous good version
	ToVersion        string // if To is empty: any slot of this version
	Window           time.Duration
	Contact          time.Duration // time since the last contact; negative: there was none
	// AwaitContact waits for contact and returns the time since then. Nil: a person asks, and the
	// switch needs no contact.
	AwaitContact func(ctx context.Context) (time.Duration, error)
	Floor        string
	Force        bool
	Reason       string // given by a person who asks on the node
}

// Arm records the trial of another slot and starts the watcher, which makes the switch. Until the
// watcher runs, everything is as before. The watcher stops the calling agent soon after. already is
// true if the slot runs now.
func (s *Stager) Arm(ctx context.Context, sd Systemd, log *zap.Logger, want Switch) (already bool, err error) {
	st, err := s.Store.Load()
	if err != nil {
		return false, err
	}
	if st.unsettled() {
		return false, underWay(st.Trial)
	}
	if want.Running == "" || want.Running != s.Store.Current() {
		return false,
			taskcatalog.Errorf(CodeNotInSlot,
				"cannot switch the agent: this process does not run from the slot that the link %s/current names (systemctl restart hostler-agent)", taskcatalog.AgentFolder)
	}
	to, slot, err := s.Store.target(st, want)
	if err != nil {
		return false, err
	}
	if to == want.Running {
		return true, s.Store.Change(func(st *State) error {
			if st.Staged == to {
				st.Staged = ""
			}
			return nil
		})
	}
	if pin := st.Pinned(slot.Version); pin != nil && !want.Force {
		return false, pinned(pin)
	}
	if err := s.checkRunnable(ctx, to, slot, want.Floor); err != nil {
		return false, err
	}
	if err := s.checkSpaceForCopy(); err != nil {
		return false, err
	}
	if want.AwaitContact != nil {
		if want.Contact, err = want.AwaitContact(ctx); err != nil {
			return false, err
		}
		if st, err = s.Store.Load(); err != nil { // the wait for contact may have taken minutes
			return false, err
		}
	}
	trial := s.Store.trial(st, want, to, slot.Version)
	if err := s.arm(st, want, trial); err != nil {
		return false, err
	}
	log.Info("starting the watcher", zap.String("from", trial.FromVersion), zap.String("to", trial.ToVersion),
		zap.String("delivery", trial.ID))
	start, cancel := context.WithTimeout(ctx, jobTime)
	defer cancel()
	// Restart, not Launch: a running watcher may have seen that there is no trial, and be about to
	// end.
	if err := sd.Restart(start, WatchUnit); err != nil && ctx.Err() == nil {
		return false, s.disarm(trial, st.Trial, err)
	}
	return false, nil
}

// target returns the requested slot and the record of its program.
func (s *Store) target(st *State, want Switch) (string, Slot, error) {
	to := want.To
	if to == "" && want.ToVersion == "" {
		to = st.PreviousSlot()
	}
	if to == "" {
		for name, slot := range st.Slots {
			if slot.Version == want.ToVersion && (to == "" || name == st.Staged) {
				to = name
			}
		}
	}
	slot, known := st.Slots[to]
	if !known {
		return "", Slot{}, taskcatalog.Errorf(CodeNotStaged,
			"cannot switch to %s: the node does not have this version (stage the version first; see hostler-agent update show)",
			taskcatalog.Clean(strings.Join([]string{want.ToVersion, to}, " "), 80))
	}
	return to, slot, s.checkSlot(to, slot)
}

// checkRunnable refuses a slot that must not run on this node now. The slot may have been staged
// long ago.
func (s *Stager) checkRunnable(ctx context.Context, to string, slot Slot, floor string) error {
	if floor != "" && !release.ValidVersion(floor) {
		return taskcatalog.Errorf(taskcatalog.CodeBadParams, "cannot switch to %s: the floor %s is not a version", slot.Version,
			taskcatalog.Clean(floor, 80))
	}
	if floor != "" && release.Compare(slot.Version, floor) < 0 {
		return taskcatalog.Errorf(release.CodeBelowFloor,
			"cannot switch to %s: the version is below the floor %s (ask for a rollback, with a reason)", slot.Version, floor)
	}
	if s.Keys != nil && slot.KeyID != "" && s.Keys()[slot.KeyID] == nil {
		return taskcatalog.Errorf(release.CodeSignatureInvalid,
			"cannot switch to %s: release key %s, which signed the release, is no longer in force (stage a release that another key signed)", slot.Version, slot.KeyID)
	}
	forms, err := s.Forms()
	if err != nil {
		return err
	}
	for _, form := range forms {
		if slot.State != (release.StateSchema{}) && !slot.State.Reads(form) {
			return taskcatalog.Errorf(release.CodeStateUnreadable,
				"cannot switch to %s: the version reads agent state of forms %d to %d, and the node's state has form %d", slot.Version,
				slot.State.ReadsMin, slot.State.ReadsMax, form)
		}
	}
	return s.test(ctx, versions+"/"+to, slot.Version, slot.State)
}

// trial describes the switch. The fallback is the running version if it had contact just now and is
// known to work. Otherwise the fallback is the good slot, if that is whole and neither the running
// slot nor the target.
func (s *Store) trial(st *State, want Switch, to, version string) *Trial {
	reached := want.Contact >= 0 && want.Contact <= freshContact
	from, fromVersion := want.Running, want.Version
	if known, ok := st.Slots[st.Good]; ok && (!reached || st.Trial != nil) && st.Good != from && st.Good != to &&
		s.checkSlot(st.Good, known) == nil {
		from, fromVersion = st.Good, known.Version
	}
	window := want.Window
	if window <= 0 {
		window = DefaultWindow
	}
	t := &Trial{
		ID: want.ID, Step: Armed, From: from, To: to, FromVersion: fromVersion, ToVersion: version,
		WindowSeconds: int(window / time.Second), Reached: reached, ArmedAt: s.now().UTC(),
	}
	if want.Reason != "" {
		t.Reason, t.Message = CodeByHand, want.Reason
	}
	return t
}

// arm records the trial. From then on the watcher may act on it.
func (s *Stager) arm(st *State, want Switch, trial *Trial) error {
	running, known := st.Slots[want.Running]
	if !known {
		sum, err := s.Store.sum(want.Running)
		if err != nil {
			return taskcatalog.Errorf(CodeNotInSlot, "cannot switch the agent: the running program's file cannot be read: %v", err)
		}
		running = Slot{Version: want.Version, SHA256: sum, State: release.State, At: s.Store.now().UTC().Truncate(time.Second)}
	}
	return s.Store.Change(func(st *State) error {
		if st.unsettled() {
			return underWay(st.Trial)
		}
		if err := s.Store.link(s.Store.lib, good, versions+"/"+trial.From); err != nil {
			return err
		}
		if trial.Over = st.Trial; trial.Over != nil {
			trial.Over.Over = nil
		}
		st.Slots[want.Running] = running
		st.Good, st.Trial = trial.From, trial
		if want.Force {
			st.unpin(trial.ToVersion)
		}
		return nil
	})
}

// disarm removes a trial that the watcher has not begun, and restores the trial it replaced. If the
// removal cannot be written, the trial stands and the watcher makes the switch once it runs: the
// error is then ErrUndecided.
func (s *Stager) disarm(trial, before *Trial, why error) error {
	begun := false
	err := s.Store.Change(func(st *State) error {
		if begun = st.Trial == nil || st.Trial.ID != trial.ID || st.Trial.Step != Armed; !begun {
			st.Trial = before
		}
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s does not start (%w), and the prepared switch cannot be undone: %w", ErrUndecided, WatchUnit, why, err)
	case begun:
		return nil
	}
	return taskcatalog.Errorf(CodeWatcher, "cannot switch the agent: %s does not start: %v (nothing was changed)", WatchUnit, why)
}
