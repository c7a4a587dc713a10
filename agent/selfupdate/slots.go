package selfupdate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Names below the agent's folder.
const (
	versions = "versions"
	current  = "current"
	good     = "good"
	packaged = "packaged" // the link brought by dpkg's package
	program  = "hostler-agent"

	unverified = ".unverified-"
	verified   = ".verified-"
)

// Codes of errors of an update on this node. Package release has the codes of errors in a release.
const (
	CodeStateInvalid  taskcatalog.Code = "update_state_invalid"
	CodeUnderWay      taskcatalog.Code = "update_under_way"
	CodeNotStaged     taskcatalog.Code = "update_not_staged"
	CodePinned        taskcatalog.Code = "version_pinned"
	CodeNoSpace       taskcatalog.Code = "update_no_space"
	CodeNotInSlot     taskcatalog.Code = "agent_not_in_slot"
	CodeSlotDamaged   taskcatalog.Code = "slot_damaged"
	CodeSlotInUse     taskcatalog.Code = "slot_in_use"
	CodeSelfTest      taskcatalog.Code = "self_test_failed"
	CodeSource        taskcatalog.Code = "release_source_unreachable"
	CodeSourceRefused taskcatalog.Code = "release_source_refused"
	CodeWatcher       taskcatalog.Code = "watcher_unavailable"
	CodeNotHeard      taskcatalog.Code = "broker_not_heard"
	CodeNoReason      taskcatalog.Code = "reason_missing"
	CodeNotSwitched   taskcatalog.Code = "switch_failed"
	// Why a version was reverted.
	CodeCrashLoop taskcatalog.Code = "crash_loop"
	CodeBootLoop  taskcatalog.Code = "boot_loop"
	CodeNotReady  taskcatalog.Code = "not_ready"
	CodeNoContact taskcatalog.Code = "no_contact"
	CodeByHand    taskcatalog.Code = "by_hand"
	// CodeStateDamaged: the record of the update could not be read any more.
	CodeStateDamaged taskcatalog.Code = "state_damaged"
)

// Store holds the node's slots and the record of updates.
type Store struct {
	disk
	now func() time.Time
}

// OpenStore opens the agent's program folder (/usr/lib/hostler-agent) and the update folder below
// the state directory. It creates the update folder if necessary.
func OpenStore(lib, stateDir string, now func() time.Time) (*Store, error) {
	dir := Dir(stateDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the folder of updates: %w", err)
	}
	l, err := os.OpenRoot(lib)
	if err != nil {
		return nil, fmt.Errorf("cannot open the agent's folder: %w", err)
	}
	st, err := os.OpenRoot(dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the folder of updates: %w", err), l.Close())
	}
	return &Store{disk: disk{lib: l, state: st, step: func(string) error { return nil }}, now: now}, nil
}

// Dir is the update folder below a state directory. It exists once a self-updating agent has
// run.
func Dir(stateDir string) string { return filepath.Join(stateDir, updateDir) }

// Close closes the folders.
func (s *Store) Close() error { return errors.Join(s.lib.Close(), s.state.Close()) }

// slotName matches the name of a slot: a version, or a version and a piece of the digest if another
// program has the plain name.
var slotName = lazyregexp.New(`^[0-9][0-9A-Za-z.-]{0,63}(_[0-9a-f]{12})?$`)

// SlotOf returns the slot of a program's path; empty: the path is in no slot.
func SlotOf(lib, executable string) string {
	rest, ok := strings.CutPrefix(executable, filepath.Join(lib, versions)+"/")
	name, file := path.Split(rest)
	name = strings.TrimSuffix(name, "/")
	if !ok || file != program || !slotName.MatchString(name) {
		return ""
	}
	return name
}

// versionIn returns the version in a slot's name.
func versionIn(slot string) string {
	version, _, _ := strings.Cut(slot, "_")
	return version
}

// linkTarget returns the slot to which a link leads; empty: none.
func (s *Store) linkTarget(link string) string {
	to, err := s.lib.Readlink(link)
	name, ok := strings.CutPrefix(to, versions+"/")
	if err != nil || !ok || !slotName.MatchString(name) {
		return ""
	}
	return name
}

// Current is the slot used by the next start of the agent.
func (s *Store) Current() string { return s.linkTarget(current) }

func (s *Store) switchTo(slot string) error { return s.link(s.lib, current, versions+"/"+slot) }

func programOf(slot string) string { return path.Join(versions, slot, program) }

// sum is the hex SHA-256 of the program in a folder of versions.
func (s *Store) sum(folder string) (string, error) {
	f, err := s.lib.Open(programOf(folder))
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// checkSlot refuses a slot whose program has changed since it was staged. Code: slot_damaged.
func (s *Store) checkSlot(slot string, want Slot) error {
	got, err := s.sum(slot)
	if err != nil {
		return taskcatalog.Errorf(CodeSlotDamaged, "cannot use slot %s: %v (stage the version again)", slot, err)
	}
	if got != want.SHA256 {
		return taskcatalog.Errorf(CodeSlotDamaged,
			"cannot use slot %s: its program has the digest %s, and had %s when the slot was made (stage the version again)", slot, got,
			want.SHA256)
	}
	return nil
}

// folders are the names in versions.
func (s *Store) folders() ([]string, error) {
	f, err := s.lib.Open(versions)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// Slots are the versions on the node.
func (s *Store) Slots(st *State) ([]taskcatalog.UpdateSlot, error) {
	names, err := s.folders()
	if err != nil {
		return nil, err
	}
	all := []taskcatalog.UpdateSlot{}
	for _, name := range names {
		if !slotName.MatchString(name) {
			continue
		}
		slot := st.Slots[name]
		if slot.Version == "" {
			slot.Version = versionIn(name)
		}
		all = append(all, taskcatalog.UpdateSlot{
			Name: name, Version: slot.Version, SHA256: slot.SHA256,
			Current: name == s.Current(), Good: name == st.Good, Previous: name == st.Previous, Pinned: st.Pinned(slot.Version) != nil,
		})
	}
	return all, nil
}

// OnDisk rebuilds the state from the folders, for when state.json cannot be read.
func (s *Store) OnDisk() *State {
	return &State{Form: stateForm, Slots: map[string]Slot{}, Good: s.linkTarget(good)}
}

// decodeLoose decodes the known fields of a document that may be newer than this agent.
func decodeLoose(raw []byte, v any) error { return json.Unmarshal(raw, v) }
