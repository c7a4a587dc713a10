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
	// stageLockFile is held by who brings or removes slots.
	stageLockFile = "stage.lock"
	beforeDir     = "before"
)

// stateForm is the form of state.json. A newer one is refused.
const stateForm = 1

// keepDeliveries is how many ended updates are remembered.
const keepDeliveries = 8

// State is state.json: what was decided, and what is under way.
type State struct {
	// Form is raised by whoever changes what older versions read. It is one of the node's
	// forms: see Stager.Forms.
	Form int `json:"form"`
	// Slots are those whose program is known: by name, what it was when it was put there.
	Slots    map[string]Slot `json:"slots"`
	Good     string          `json:"good,omitempty"`     // the slot that is known to work
	Previous string          `json:"previous,omitempty"` // the one that was good before it
	Staged   string          `json:"staged,omitempty"`   // staged last, and not tried yet
	Trial    *Trial          `json:"trial,omitempty"`
	Pins     []Pin           `json:"pins,omitempty"`
	// Deliveries are the updates that came to an end, the last one last.
	Deliveries []taskcatalog.AgentDelivery `json:"deliveries,omitempty"`
}

// Before is the slot of the version before the one that runs: of one that was confirmed
// and has not proved itself, the one that is known to work. Empty: there is none.
func (st *State) Before() string {
	if t := st.Trial; t != nil && t.Step == Proving {
		return t.From
	}
	return st.Previous
}

// Slot is what is known of the program in a slot.
type Slot struct {
	Version string `json:"version"`
	SHA256  string `json:"sha256"`            // hex
	Release string `json:"release,omitempty"` // digest of the manifest; empty: dpkg brought it
	KeyID   string `json:"key_id,omitempty"`  // of the release key
	// State is what forms of the agent's state it reads; unset: it is not known.
	State release.StateSchema `json:"state,omitzero"`
	At    time.Time           `json:"at"`
}

// Pin has a version skipped.
type Pin struct {
	Version string           `json:"version"`
	Reason  taskcatalog.Code `json:"reason"`
	Message string           `json:"message,omitempty"`
	ID      string           `json:"id,omitempty"` // of the delivery
	At      time.Time        `json:"at"`
}

// Last is the update that ended last; nil: none did.
func (s *State) Last() *taskcatalog.AgentDelivery {
	if len(s.Deliveries) == 0 {
		return nil
	}
	return &s.Deliveries[len(s.Deliveries)-1]
}

// Delivery is what became of an update; nil: it has not ended, is being put back, or is
// not known.
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

// Pinned is why a version is skipped; nil: it is not.
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

// unsettled reports whether a version is on trial that was not confirmed, or that is put
// back: nobody takes a task, and no other update begins.
func (s *State) unsettled() bool { return s.Trial != nil && s.Trial.Step != Proving }

// ended writes down what became of an update. One that was confirmed, and put back since,
// was put back.
func (s *State) ended(d taskcatalog.AgentDelivery) {
	s.Deliveries = slices.DeleteFunc(s.Deliveries, func(e taskcatalog.AgentDelivery) bool { return e.ID == d.ID })
	s.Deliveries = append(s.Deliveries, d)
	if n := len(s.Deliveries) - keepDeliveries; n > 0 {
		s.Deliveries = slices.Delete(s.Deliveries, 0, n)
	}
}

const maxState = 1 << 20

// Load reads state.json; one that is not there is empty. Code: update_state_invalid.
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

// Why a state cannot be used; whatever else keeps one from being read may pass.
var (
	errDamaged = errors.New("it is damaged")
	errNewer   = errors.New("a newer agent wrote it")
)

// read reads a state.
func (s *Store) read(name string) (*State, error) {
	raw, err := readBounded(s.state, name, maxState)
	if info, failed := s.state.Lstat(name); errors.Is(err, errTooLarge) || failed == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no file of at most %d bytes", errDamaged, name, maxState)
	}
	if err != nil {
		return nil, err
	}
	// Whatever else a newer form holds, this is in it.
	var file formed
	if err := decodeLoose(raw, &file); err == nil && file.Form > stateForm {
		return nil, fmt.Errorf("%w: it is of form %d, and this agent reads up to %d (run the newer agent)", errNewer, file.Form, stateForm)
	}
	// Of the same form, what a newer version has added is what this one can do without.
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

// formed is what state.json holds in every form.
type formed struct {
	Form int `json:"form"`
}

// FormIn is the form of what a state directory holds of updates; 1 where there is nothing
// yet.
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

// Change reads the state, has it changed, and writes it, with nobody else between. An
// error of do changes nothing.
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

// locked does something while nobody else changes the state.
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

// put writes a state, unless it is there like that.
func (s *Store) put(name string, st *State) error {
	raw, err := taskcatalog.Encode(st)
	if err != nil {
		return err
	}
	if old, err := readBounded(s.state, name, maxState); err == nil && bytes.Equal(old, raw) {
		return nil
	}
	err = s.write(s.state, name, raw, 0o600)
	for full(err) && s.giveBack() {
		err = s.write(s.state, name, raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot write the update's state: %w", err)
	}
	return nil
}

var errTooLarge = errors.New("it is too large")

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
