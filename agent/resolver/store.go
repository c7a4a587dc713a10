package resolver

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Keep is how many versions a store keeps, including the version in force.
const Keep = 5

// The codes of a store.
const (
	CodeVersionUnknown  taskcatalog.Code = "version_unknown"
	CodeVersionTaken    taskcatalog.Code = "version_taken"
	CodeNoPrevious      taskcatalog.Code = "no_previous_version"
	CodeBadVersion      taskcatalog.Code = "bad_version"
	CodeStoreUnreadable taskcatalog.Code = "profiles_unreadable"
)

const (
	currentFile = "current"
	fileSuffix  = ".json"
	tempSuffix  = ".new"
)

// versionName is also a file's name: no leading dot, no slash.
var versionName = lazyregexp.New(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// Kept is a version kept by a store.
type Kept = taskcatalog.ProfileVersion

// current is the file that names the version in force. Kept is newest first.
type current struct {
	Version string `json:"version"`
	Kept    []Kept `json:"kept"`
}

// Store keeps the sets of a node in a directory of its own. Its methods may be called concurrently.
type Store struct {
	dir string

	mu      sync.Mutex
	current current
	set     *profiles.Set
	damage  error
	// at is called between any two steps that a crash may separate: tests end there.
	at func(step string) error
}

// Open opens the store in a directory, which need not exist yet. A set is always in force: without
// a set on disk, or if the set on disk is damaged, it is the compiled-in minimal set. Damaged then
// returns the reason.
func Open(dir string) *Store {
	s := &Store{dir: dir, at: func(string) error { return nil }}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load()
	return s
}

// InForce is the set in force; its Version is "minimal" for the compiled-in set. The set is
// immutable.
func (s *Store) InForce() *profiles.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set
}

// Kept lists the versions available for a rollback, newest first.
func (s *Store) Kept() []Kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.current.Kept)
}

// Damaged returns why the set on disk is not in force, or nil. Code profiles_unreadable.
func (s *Store) Damaged() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.damage
}

func (s *Store) load() {
	s.current, s.set, s.damage = current{}, profiles.Minimal(), nil
	raw, err := s.read(currentFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var c current
	if err == nil {
		err = taskcatalog.DecodeStrict(raw, &c)
	}
	if err == nil && len(c.Kept) > Keep {
		err = fmt.Errorf("%d versions are listed", len(c.Kept))
	}
	for _, k := range c.Kept {
		if !versionName.MatchString(k.Version) {
			err = errors.Join(err, fmt.Errorf("%q is not a valid version", taskcatalog.Clean(k.Version, 80)))
		}
	}
	if err != nil {
		s.damage = taskcatalog.Errorf(CodeStoreUnreadable, "cannot read which profiles are in force: %v (push the profiles again)", err)
		return
	}
	s.current = c
	set, err := s.open(c.Version)
	if err != nil {
		s.damage = err
		return
	}
	s.set = set
}

// open reads a kept version and judges it like a set from outside.
func (s *Store) open(version string) (*profiles.Set, error) {
	k, ok := s.kept(version)
	if !ok {
		return nil, taskcatalog.Errorf(CodeVersionUnknown, "version %q of the profiles is not stored on this node (stored: %s)",
			taskcatalog.Clean(version, 64), s.names())
	}
	raw, err := s.read(version + fileSuffix)
	if err != nil {
		return nil, taskcatalog.Errorf(CodeStoreUnreadable, "cannot read version %s of the profiles: %v (push the profiles again)", version,
			err)
	}
	set, problems := profiles.Decode(raw)
	if problems != nil {
		return nil, taskcatalog.Errorf(CodeStoreUnreadable, "cannot use version %s of the profiles: %v (push the profiles again)", version,
			problems)
	}
	if set.Digest() != k.Digest {
		return nil, taskcatalog.Errorf(CodeStoreUnreadable,
			"version %s of the profiles was changed on this node: its digest is now %s (push the profiles again)", version, set.Digest())
	}
	set.Version = version
	return set, nil
}

func (s *Store) kept(version string) (Kept, bool) {
	i := slices.IndexFunc(s.current.Kept, func(k Kept) bool { return k.Version == version })
	if i < 0 {
		return Kept{}, false
	}
	return s.current.Kept[i], true
}

func (s *Store) names() string {
	var all []string
	for _, k := range s.current.Kept {
		all = append(all, k.Version)
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// Apply puts a set into force under its Version and reports whether anything changed. Code
// version_taken if the version is known with other content.
func (s *Store) Apply(set *profiles.Set) (changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version, digest := set.Version, set.Digest()
	if !versionName.MatchString(version) || version == profiles.MinimalVersion || strings.HasSuffix(version, tempSuffix) {
		return false,
			taskcatalog.Errorf(CodeBadVersion,
				"cannot store profiles under the version %q: not a valid version (a-z, 0-9, '.', '_', '-', 64 at most, not %q)",
				taskcatalog.Clean(version, 80), profiles.MinimalVersion)
	}
	if k, ok := s.kept(version); ok {
		if k.Digest != digest {
			return false, taskcatalog.Errorf(CodeVersionTaken,
				"cannot store version %s of the profiles: the node has this version with other content, digest %s (push under another version)", version, k.Digest)
		}
		if s.set.Version == version {
			return false, nil
		}
	}
	raw, err := set.Encode()
	if err != nil {
		return false, err
	}
	if err := s.write(version+fileSuffix, raw); err != nil {
		return false, err
	}
	kept := slices.DeleteFunc(slices.Clone(s.current.Kept), func(k Kept) bool { return k.Version == version })
	kept = slices.Insert(kept, 0, Kept{Version: version, Digest: digest})
	return true, s.put(current{Version: version, Kept: kept[:min(len(kept), Keep)]}, set)
}

// Find reads a kept version, or the version before the one in force if version is empty. Codes
// version_unknown, no_previous_version, profiles_unreadable.
func (s *Store) Find(version string) (*profiles.Set, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(version)
}

func (s *Store) find(version string) (*profiles.Set, error) {
	if version == "" {
		i := slices.IndexFunc(s.current.Kept, func(k Kept) bool { return k.Version == s.current.Version })
		if i < 0 || i+1 >= len(s.current.Kept) {
			return nil,
				taskcatalog.Errorf(CodeNoPrevious,
					"cannot roll back the profiles: no version before %s is stored on this node (stored: %s)", s.set.Version, s.names())
		}
		version = s.current.Kept[i+1].Version
	}
	if version == s.set.Version && version != profiles.MinimalVersion {
		return s.set, nil
	}
	return s.open(version)
}

// Rollback puts the set returned by Find into force and reports whether anything changed.
func (s *Store) Rollback(version string) (changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set, err := s.find(version)
	if err != nil || set == s.set {
		return false, err
	}
	version = set.Version
	return true, s.put(current{Version: version, Kept: s.current.Kept}, set)
}

// put makes c the state of the store: on disk first, then in memory. Versions no longer listed are
// removed last.
func (s *Store) put(c current, set *profiles.Set) error {
	raw, err := taskcatalog.Encode(c)
	if err != nil {
		return err
	}
	if err := s.write(currentFile, raw); err != nil {
		return err
	}
	s.current, s.set, s.damage = c, set, nil
	if err := s.at("sweep"); err != nil {
		return err
	}
	s.sweep()
	return nil
}
