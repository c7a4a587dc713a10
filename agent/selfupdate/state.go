package selfupdate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Files of the update's folder.
const (
	updateDir   = "update" // below the state directory
	stateFile   = "state.json"
	contactFile = "contact"
	processFile = "process"
	lockFile    = "lock"
	// stageLockFile is locked by everything that adds or removes slots.
	stageLockFile = "stage.lock"
	beforeDir     = "before"
)

// stateForm is the form of state.json. A newer form is refused.
const stateForm = 1

// keepDeliveries is how many ended updates are remembered.
const keepDeliveries = 8

// State is the content of state.json: decisions, and the trial under way.
type State struct {
	// Form must be raised by a change that older versions cannot read. It is one of the node's
	// forms: see Stager.Forms.
	Form int `json:"form"`
	// Slots records the program of each slot as it was installed, by the slot's name.
	Slots    map[string]Slot `json:"slots"`
	Good     string          `json:"good,omitempty"`     // the slot known to work
	Previous string          `json:"previous,omitempty"` // the previous value of Good
	Staged   string          `json:"staged,omitempty"`   // staged last, and not tried yet
	Trial    *Trial          `json:"trial,omitempty"`
	Pins     []Pin           `json:"pins,omitempty"`
	// Deliveries are the ended updates, the latest last.
	Deliveries []taskcatalog.AgentDelivery `json:"deliveries,omitempty"`
}

// PreviousSlot is the slot of the version before the running version. For a confirmed version in
// its proof this is the version known to work. Empty: there is none.
func (st *State) PreviousSlot() string {
	if t := st.Trial; t != nil && t.Step == Proving {
		return t.From
	}
	return st.Previous
}

// Slot is the record of the program in a slot.
type Slot struct {
	Version string `json:"version"`
	SHA256  string `json:"sha256"`            // hex
	Release string `json:"release,omitempty"` // digest of the manifest; empty: installed by dpkg
	KeyID   string `json:"key_id,omitempty"`  // of the release key
	// State says which forms of the agent's state the program reads; unset: unknown.
	State release.StateSchema `json:"state,omitzero"`
	At    time.Time           `json:"at"`
}

// Pin makes the node skip a version.
type Pin struct {
	Version string           `json:"version"`
	Reason  taskcatalog.Code `json:"reason"`
	Message string           `json:"message,omitempty"`
	ID      string           `json:"id,omitempty"` // of the delivery
	At      time.Time        `json:"at"`
}

// Last is the update that ended last; nil: no update has ended.
func (s *State) Last() *taskcatalog.AgentDelivery {
	if len(s.Deliveries) == 0 {
		return nil
	}
	return &s.Deliveries[len(s.Deliveries)-1]
}

// Delivery returns the outcome of an update; nil: the update has not ended, is being reverted, or
// is not known.
func (s *State) Delivery(id string) *taskcatalog.AgentDelivery {
	if s.unsettled() && s.Trial.ID == id {
		return nil
	}
	for i := range s.Deliveries {
		if s.Deliveries[i].ID == id {
			return &s.Deliveries[i]
		}
	}
	return nil
}

// Pinned returns why a version is skipped; nil: the version is not skipped.
func (s *State) Pinned(version string) *Pin {
	for i := range s.Pins {
		if s.Pins[i].Version == version {
			return &s.Pins[i]
		}
	}
	return nil
}

func (s *State) pin(p Pin) {
	s.unpin(p.Version)
	s.Pins = append(s.Pins, p)
}

func (s *State) unpin(version string) bool {
	before := len(s.Pins)
	s.Pins = slices.DeleteFunc(s.Pins, func(p Pin) bool { return p.Version == version })
	return len(s.Pins) < before
}

// unsettled reports whether a version is on trial and not confirmed, or is being reverted: no
// version takes a task, and no other update begins.
func (s *State) unsettled() bool { return s.Trial != nil && s.Trial.Step != Proving }

// ended records the outcome of an update. It replaces an earlier outcome of the same update: a
// confirmed version that is reverted later counts as rolled back.
func (s *State) ended(d taskcatalog.AgentDelivery) {
	s.Deliveries = slices.DeleteFunc(s.Deliveries, func(e taskcatalog.AgentDelivery) bool { return e.ID == d.ID })
	s.Deliveries = append(s.Deliveries, d)
	if n := len(s.Deliveries) - keepDeliveries; n > 0 {
		s.Deliveries = slices.Delete(s.Deliveries, 0, n)
	}
}

const maxState = 1 << 20

// Load reads state.json; a missing file is an empty state. Code: update_state_invalid.
func (s *Store) Load() (*State, error) {
	st, err := s.read(stateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return &State{Form: stateForm, Slots: map[string]Slot{}}, nil
	}
	if err != nil {
		hint := ""
		if errors.Is(err, errDamaged) {
			hint = " (move " + stateFile + " away; the running version stays)"
		}
		return nil, taskcatalog.Errorf(CodeStateInvalid, "cannot read the update's state: %v%s", err, hint)
	}
	return st, nil
}

// Lasting reasons why a state cannot be used; any other read error may pass.
var (
	errDamaged = errors.New("the file is damaged")
	errNewer   = errors.New("a newer agent wrote the file")
)

// read reads a state file.
func (s *Store) read(name string) (*State, error) {
	raw, err := readBounded(s.state, name, maxState)
	if info, failed := s.state.Lstat(name); errors.Is(err, errTooLarge) || failed == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a file of at most %d bytes", errDamaged, name, maxState)
	}
	if err != nil {
		return nil, err
	}
	// Every form has this field.
	var file formed
	if err := decodeLoose(raw, &file); err == nil && file.Form > stateForm {
		return nil, fmt.Errorf("%w: the file has form %d, and this agent reads up to form %d (run the newer agent)", errNewer, file.Form,
			stateForm)
	}
	// In the same form, fields added by a newer version can be ignored.
	st := new(State)
	if err := decodeLoose(raw, st); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	st.Form = max(st.Form, 1)
	if st.Slots == nil {
		st.Slots = map[string]Slot{}
	}
	return st, nil
}

// formed holds the field that state.json has in every form.
type formed struct {
	Form int `json:"form"`
}

// FormIn returns the form of the update record in a state directory; 1 if there is none yet.
func FormIn(stateDir string) (int, error) {
	dir, err := os.OpenRoot(filepath.Join(stateDir, updateDir))
	var raw []byte
	if err == nil {
		raw, err = readBounded(dir, stateFile, maxState)
		_ = dir.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return 1, nil
	}
	var file formed
	if err == nil {
		err = decodeLoose(raw, &file)
	}
	if err != nil {
		return 0, taskcatalog.Errorf(CodeStateInvalid, "cannot read the update's state: %v", err)
	}
	return max(file.Form, 1), nil
}

// Change reads the state, lets do change it, and writes it, under the lock. If do returns an error,
// nothing is changed.
func (s *Store) Change(do func(*State) error) error {
	return s.locked(func() error {
		st, err := s.Load()
		if err != nil {
			return err
		}
		if err := do(st); err != nil {
			return err
		}
		return s.put(stateFile, st)
	})
}

// locked calls do while no other process changes the state.
func (s *Store) locked(do func() error) error {
	f, err := s.state.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("cannot lock the update's state: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("cannot lock the update's state: %w", err)
	}
	return do()
}

// put writes a state, unless the file has this content already.
func (s *Store) put(name string, st *State) error {
	raw, err := taskcatalog.Encode(st)
	if err != nil {
		return err
	}
	if old, err := readBounded(s.state, name, maxState); err == nil && bytes.Equal(old, raw) {
		return nil
	}
	err = s.write(s.state, name, raw, 0o600)
	for isFull(err) && s.freeBallast() {
		err = s.write(s.state, name, raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot write the update's state: %w", err)
	}
	return nil
}

var errTooLarge = errors.New("the state is too large")

func readBounded(in *os.Root, name string, most int64) ([]byte, error) {
	f, err := in.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("%w: %s has more than %d bytes", errTooLarge, name, most)
	}
	return raw, err
}
