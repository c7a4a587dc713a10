package selfupdate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// partialRetention is how long a partly fetched release is kept for a task that resumes the fetch.
// At most one is kept: a staging task removes those of other releases.
const partialRetention = 24 * time.Hour

// stages takes the lock held by everything that adds or removes slots. The kernel releases the lock
// of a process that ends. done is nil if another process has the lock and wait is false.
func (s *Store) stages(wait bool) (done func(), err error) {
	f, err := s.state.OpenFile(stageLockFile, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the agent's slots: %w", err)
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	err = syscall.Flock(int(f.Fd()), how)
	if err == nil {
		return func() { _ = f.Close() }, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("cannot lock the agent's slots: %w", err)
}

// Collect removes unused folders: versions without a reference, and remains of an interrupted
// update, except for the fetched part that the next update resumes. While a release is being staged
// Collect removes nothing: the staging collects by itself.
func (s *Store) Collect() error {
	done, err := s.stages(false)
	if err != nil || done == nil {
		return err
	}
	defer done()
	return s.collect(s.partialFetch())
}

// partialFetch returns the folder of the most recent partly fetched release; empty: there is none,
// or it is older than partialRetention.
func (s *Store) partialFetch() (newest string) {
	var last time.Time
	names, _ := s.folders()
	for _, name := range names {
		if !strings.HasPrefix(name, unverified) {
			continue
		}
		info, err := s.lib.Stat(path.Join(versions, name, layerFile))
		if err == nil && s.now().Sub(info.ModTime()) < partialRetention && info.ModTime().After(last) {
			newest, last = name, info.ModTime()
		}
	}
	return newest
}

// collect is Collect for a caller that holds the lock. The folder keep stays.
func (s *Store) collect(keep string) error {
	var failed error
	err := s.Change(func(st *State) error {
		names, err := s.folders()
		if err != nil {
			return err
		}
		serves := []string{s.Current(), s.linkTarget(good), s.linkTarget(packaged), st.Good, st.Previous, st.Staged, keep}
		if t := st.Trial; t != nil {
			serves = append(serves, t.From, t.To)
		}
		for _, name := range names {
			ours := slotName.MatchString(name) || strings.HasPrefix(name, unverified) || strings.HasPrefix(name, verified)
			if ours && !slices.Contains(serves, name) {
				failed = errors.Join(failed, s.remove(s.lib, path.Join(versions, name)))
			}
		}
		for name := range st.Slots {
			if _, err := s.lib.Lstat(programOf(name)); errors.Is(err, fs.ErrNotExist) {
				delete(st.Slots, name)
			}
		}
		return nil
	})
	return errors.Join(err, failed)
}
