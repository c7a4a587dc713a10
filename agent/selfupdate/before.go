package selfupdate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/taskcatalog"
)

// Part is a part of the node's state that the old version must be able to read.
type Part struct {
	Name  string
	Files []string // name patterns in the state directory; the first is a plain name, never removed once the file exists
	// Check returns why the part in a state directory cannot be used.
	Check func(stateDir string) error
	// ID returns an id that the part in a state directory keeps for life; empty: the part has no
	// id. Nil: a replacement of the part cannot be detected.
	ID func(stateDir string) (string, error)
	// Lost marks the part in a state directory as restored: the replaced part may have known tasks
	// unknown to the restored part. Nil: the part holds no tasks.
	Lost func(stateDir string, at time.Time) error
}

// BeforeDir returns the folder below a state directory that holds the parts as they were before the
// switch, while a version is on trial.
func BeforeDir(stateDir string) string { return filepath.Join(stateDir, updateDir, beforeDir) }

// matching returns the files of a part in a folder.
func (p Part) matching(in *os.Root, dir string) (names []string, err error) {
	for _, pattern := range p.Files {
		found, err := fs.Glob(in.FS(), path.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			if info, err := in.Lstat(name); err == nil && info.Mode().IsRegular() {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// maxBefore bounds the copy of the node's state.
const maxBefore = 256 << 20

// spareState is the space left free beside the copy, in bytes: the update itself writes there.
const spareState = 8 << 20

// checkSpaceForCopy refuses a switch if the copy of the node's state would not fit.
func (s *Stager) checkSpaceForCopy() error {
	home, err := os.OpenRoot(s.StateDir)
	if err != nil {
		return err
	}
	defer func() { _ = home.Close() }()
	need := int64(spareState)
	for _, part := range s.Parts {
		names, err := part.matching(home, ".")
		if err != nil {
			return err
		}
		for _, name := range names {
			if info, err := home.Stat(name); err == nil { // a file removed meanwhile needs no space
				need += info.Size()
			}
		}
	}
	left, err := freeBytes(s.Store.state)
	if err == nil && left < need {
		err = taskcatalog.Errorf(CodeNoSpace,
			"cannot switch the agent: a copy of its state needs %d MiB, and %d are free (free space below %s)", need>>20, left>>20,
			s.StateDir)
	}
	return err
}

// keepBefore copies the parts of the node's state, while no agent runs. The copy is complete or
// does not exist.
func (w *Watcher) keepBefore() error {
	s, temp := w.Store, beforeDir+temporary
	if err := w.fillBefore(temp); err != nil {
		return errors.Join(err, s.remove(s.state, temp)) // the partial copy may have filled the disk
	}
	if err := s.remove(s.state, beforeDir); err != nil {
		return err
	}
	return s.rename(s.state, temp, beforeDir)
}

func (w *Watcher) fillBefore(temp string) error {
	s := w.Store
	if err := errors.Join(s.remove(s.state, temp), s.folder(s.state, temp, 0o700)); err != nil {
		return err
	}
	home, err := os.OpenRoot(w.StateDir)
	if err != nil {
		return err
	}
	defer func() { _ = home.Close() }()
	room := int64(maxBefore)
	for _, part := range w.Parts {
		names, err := part.matching(home, ".")
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := copyFile(&s.disk, home, name, s.state, path.Join(temp, path.Base(name)), &room); err != nil {
				return fmt.Errorf("cannot copy %s: %w", name, err)
			}
		}
	}
	return s.sync(s.state, temp)
}

// restoreBefore restores the parts that the previous version cannot read now, and returns their
// names. If tasks were taken since the copy was made, the copy is marked first (Part.Lost): a
// restored part never claims to know all tasks.
func (w *Watcher) restoreBefore(tasksSince bool) (restored []string, err error) {
	s := w.Store
	home, err := os.OpenRoot(w.StateDir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = home.Close() }()
	for _, part := range w.Parts {
		names, err := part.matching(s.state, beforeDir)
		if err != nil {
			return restored, err
		}
		if len(names) == 0 || w.intact(home, part) {
			continue
		}
		if err := part.Check(BeforeDir(w.StateDir)); err != nil {
			w.Log.Error("the node's "+part.Name+" cannot be used, and neither can its copy from before the switch; it stays unchanged",
				zap.Error(err))
			continue
		}
		if tasksSince && part.Lost != nil {
			if err := part.Lost(BeforeDir(w.StateDir), s.now().UTC()); err != nil {
				return restored, fmt.Errorf("cannot mark the copy of the node's %s as incomplete: %w", part.Name, err)
			}
		}
		room := int64(maxBefore)
		for _, name := range names {
			to := path.Base(name)
			if err := copyFile(&s.disk, s.state, name, home, to+temporary, &room); err != nil {
				return restored, errors.Join(fmt.Errorf("cannot restore %s: %w", to, err), s.remove(home, to+temporary))
			}
			if err := s.rename(home, to+temporary, to); err != nil {
				return restored, err
			}
		}
		if err := w.removeExtraFiles(home, part); err != nil {
			return restored, err
		}
		restored = append(restored, part.Name)
	}
	return restored, nil
}

// removeExtraFiles makes a restored part usable. If the part still fails its check,
// removeExtraFiles removes the files that the copy does not have. If the check passes, such files
// stay: one may be a key to which the node is changing.
func (w *Watcher) removeExtraFiles(home *os.Root, part Part) error {
	s := w.Store
	if part.Check(w.StateDir) == nil {
		return nil
	}
	names, err := part.matching(home, ".")
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := s.state.Lstat(path.Join(beforeDir, name)); errors.Is(err, fs.ErrNotExist) {
			if err := s.remove(home, name); err != nil {
				return err
			}
		}
	}
	if err := part.Check(w.StateDir); err != nil {
		return fmt.Errorf("the node's %s was restored, and cannot be used: %w", part.Name, err)
	}
	return nil
}

// intact reports whether a part can be used and is the same part as before the switch. A file that
// had content and is now missing, empty or replaced is damage that looks like a first start.
func (w *Watcher) intact(home *os.Root, part Part) bool {
	was, err := w.Store.state.Stat(path.Join(beforeDir, part.Files[0]))
	is, gone := home.Stat(part.Files[0])
	if err == nil && was.Size() > 0 && (gone != nil || is.Size() == 0) {
		return false
	}
	if part.Check(w.StateDir) != nil {
		return false
	}
	if part.ID == nil {
		return true
	}
	// A copy without an id was last opened by an agent that gave ledgers no id.
	id, err := part.ID(BeforeDir(w.StateDir))
	if err != nil || id == "" {
		return true
	}
	now, err := part.ID(w.StateDir)
	return err == nil && now == id
}

func copyFile(d *disk, from *os.Root, name string, to *os.Root, as string, room *int64) error {
	f, err := from.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return d.fill(to, as, 0o600, func(w io.Writer) error {
		n, err := io.Copy(w, io.LimitReader(f, *room+1))
		if *room -= n; *room < 0 {
			return fmt.Errorf("the state has more than %d bytes", maxBefore)
		}
		return err
	})
}
