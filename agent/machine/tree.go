package machine

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"
)

// Tree configures a sweep of a directory tree. The tree may belong to an enemy who changes it
// meanwhile: swaps directories for links, plants mounts, nests ten thousand deep, fills a directory
// with a million names.
type Tree struct {
	// Remove is asked for every entry that is not a directory, and for every directory once it is
	// empty. Nil removes nothing: the sweep only looks.
	Remove func(*Entry) bool
	// Enter is asked for every directory before it is entered. Nil enters all.
	Enter func(*Entry) bool
	// Look sees every entry, before it is removed or entered. Nil sees none.
	Look func(*Entry)
	// Fault is told each path that could not be handled; the sweep goes on.
	Fault func(path string, err error)
	// Gone, if not nil, is told each name that had vanished when the sweep came to look.
	Gone func(path string)
	// Changed, if not nil, is told each directory whose entries changed since the look began: the
	// look may have missed entries that were added, removed or renamed there.
	Changed func(dir string)
	// Since, a time of ChangeClock, is when a look of several sweeps began.
	Since int64
	// Kept, if not nil, is told each directory that Remove chooses but that stays, because an entry
	// in it was not chosen.
	Kept func(*Entry)
}

// Tally counts what a sweep removed. Bytes counts only space given back to the file system: a file
// with another hard link gives back none.
type Tally struct {
	Files, Dirs, Bytes int64
	Faults             int64
}

// Add sums two tallies.
func (t *Tally) Add(o Tally) {
	t.Files += o.Files
	t.Dirs += o.Dirs
	t.Bytes += o.Bytes
	t.Faults += o.Faults
}

// AllEntries chooses every entry of a tree.
func AllEntries(*Entry) bool { return true }

var (
	errChanged = errors.New("changed during the scan")
	// ErrMount says that a path is a mount point; a sweep never crosses mount points.
	ErrMount = errors.New("a mount point, not crossed")
	errDeep  = errors.New("moved away during the scan")
	errMany  = errors.New("too many directories in one directory; not all were scanned")
)

// Empty sweeps the content of the directory top and leaves the directory itself. Top may be a mount
// point; no component of its path may be a link.
func (m *Machine) Empty(ctx context.Context, top string, t Tree) (Tally, error) {
	d, err := m.OpenDirStrict(top)
	if err != nil {
		return Tally{}, err
	}
	defer d.Close()
	s := newSweep(ctx, t, path.Clean(top))
	defer s.close()
	fd, err := unix.FcntlInt(d.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return Tally{}, err
	}
	if err := s.push(fd, ""); err != nil {
		return Tally{}, err
	}
	s.frames[0].pinned = true
	return s.run()
}

// RemoveAll sweeps the path name itself, a directory or anything else. A missing path is no error.
func (m *Machine) RemoveAll(ctx context.Context, name string, t Tree) (Tally, error) {
	d, err := m.OpenDirStrict(path.Dir(path.Clean(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return Tally{}, nil
	}
	if err != nil {
		return Tally{}, err
	}
	defer d.Close()
	s := newSweep(ctx, t, path.Dir(path.Clean(name)))
	defer s.close()
	fd, err := unix.FcntlInt(d.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return Tally{}, err
	}
	if err := s.push(fd, ""); err != nil {
		return Tally{}, err
	}
	top := s.frames[0]
	top.pinned, top.scanned = true, true
	s.entry(top, path.Base(path.Clean(name)))
	return s.run()
}

// ChangeClock reads the clock by which the kernel dates changes of files, in nanoseconds. The clock
// advances in ticks of some milliseconds.
func ChangeClock() int64 { return clock(unix.CLOCK_REALTIME_COARSE) }

func clock(id int32) int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(id, &now) // every kernel has these clocks
	return now.Nano()
}
