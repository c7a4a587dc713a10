package machine

import (
	"context"
	"errors"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// Bounds of one sweep. Below depth maxPinned a directory is held open only while it is the current
// directory: a tree deeper than the number of descriptors is swept all the same, by way of "..".
const (
	maxPinned  = 64
	maxSubs    = 1 << 16 // subdirectories of one directory that are noted at a time
	maxScans   = 4       // of one directory whose names keep coming back
	maxRescans = 1000    // of one sweep
)

// frame is a directory on the way from the top to the current directory.
type frame struct {
	fd      int // -1: not held open
	name    string
	dev     uint64
	ino     uint64
	subs    []string // directories still to enter
	scanned bool
	more    bool // the directory has more than maxSubs subdirectories
	kept    bool // an entry stays, so that the directory stays too
	spared  bool // an entry was not chosen
	pinned  bool // held open and never removed itself
	scans   int
	dirs    int64 // the tally when the directory was last scanned for more
	changed int64 // the directory's time of change when it was opened
}

type sweep struct {
	Tree
	ctx    context.Context
	top    string
	frames []*frame
	tally  Tally
	buf    []byte
	count  int

	rescans int
}

func newSweep(ctx context.Context, t Tree, top string) *sweep {
	s := &sweep{Tree: t, ctx: ctx, top: top, buf: make([]byte, 64<<10)}
	if s.Since == 0 {
		s.Since = ChangeClock()
	}
	return s
}

// changed reports a directory that changed since the look began. A change in the same tick as the
// beginning may have come before, but counts. A change in the future was made before the clock was
// set back, and does not count. Newer kernels date a change more finely than by ticks if somebody
// watches the file's times.
func (s *sweep) changed(f *frame) {
	var st unix.Stat_t
	if s.Changed == nil || unix.Fstat(f.fd, &st) != nil {
		return
	}
	if at := st.Ctim.Nano(); at != f.changed || at >= s.Since && at <= clock(unix.CLOCK_REALTIME) {
		s.Changed(s.path())
	}
}

func (s *sweep) close() {
	for _, f := range s.frames {
		if f.fd >= 0 {
			unix.Close(f.fd)
		}
	}
}

// path returns the current directory of the sweep. A path longer than anyone can read is cut in its
// middle.
func (s *sweep) path() string {
	const most = 4096
	length, from := 0, len(s.frames)
	for from > 1 && length < most {
		from--
		length += len(s.frames[from].name) + 1
	}
	p := s.top
	if from > 1 {
		p += "/…"
	}
	for _, f := range s.frames[min(from, len(s.frames)):] {
		p += "/" + f.name
	}
	return path.Clean(p)
}

func (s *sweep) fault(p string, err error) {
	s.tally.Faults++
	if s.Fault != nil {
		s.Fault(p, err)
	}
}

// gone reports a name that has vanished from the current directory.
func (s *sweep) gone(name string) {
	if s.Gone != nil {
		s.Gone(path.Join(s.path(), name))
	}
}

func (s *sweep) push(fd int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return err
	}
	if n := len(s.frames); n > maxPinned { // the parent is found again by ".."
		parent := s.frames[n-1]
		unix.Close(parent.fd)
		parent.fd = -1
	}
	s.frames = append(s.frames, &frame{fd: fd, name: name, dev: st.Dev, ino: st.Ino, changed: st.Ctim.Nano()})
	return nil
}

// run goes through the tree depth first until the stack is empty.
func (s *sweep) run() (Tally, error) {
	for len(s.frames) > 0 {
		if err := s.ctx.Err(); err != nil {
			return s.tally, err
		}
		f := s.frames[len(s.frames)-1]
		switch {
		case !f.scanned:
			f.scanned, f.more = true, false
			f.scans++
			if err := s.scan(f); err != nil {
				s.fault(s.path(), err)
				f.kept = true
			}
		case len(f.subs) > 0:
			name := f.subs[len(f.subs)-1]
			f.subs = f.subs[:len(f.subs)-1]
			s.descend(f, name)
		case f.more && s.tally.Dirs > f.dirs: // some were removed, so that others fit
			f.scanned, f.dirs = false, s.tally.Dirs
		default:
			s.pop(f)
		}
	}
	return s.tally, s.ctx.Err()
}

// scan reads the names of the current directory. Other entries than directories are handled at
// once; directories are noted for later.
func (s *sweep) scan(f *frame) error {
	if _, err := unix.Seek(f.fd, 0, 0); err != nil {
		return err
	}
	var names []string
	for {
		n, err := unix.ReadDirent(f.fd, s.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		_, _, names = unix.ParseDirent(s.buf[:n], -1, names[:0])
		for _, name := range names {
			if s.count++; s.count%512 == 0 && s.ctx.Err() != nil {
				return s.ctx.Err()
			}
			s.entry(f, name)
		}
	}
}

func (s *sweep) entry(f *frame, name string) {
	e := &Entry{Name: name, sweep: s, dir: f.fd}
	err := e.look()
	if errors.Is(err, unix.ENOENT) {
		s.gone(name)
		return
	}
	if err != nil {
		s.fault(path.Join(s.path(), name), err)
		f.kept = true
		return
	}
	if s.Look != nil {
		s.Look(e)
	}
	if e.IsDir() {
		switch {
		case s.Enter != nil && !s.Enter(e):
			f.kept, f.spared = true, true
		case len(f.subs) >= maxSubs && s.Remove != nil:
			f.more = true // the next scan finds it
		case len(f.subs) >= 16*maxSubs:
			s.fault(s.path(), errMany)
		default:
			f.subs = append(f.subs, name)
		}
		return
	}
	if s.Remove == nil || !s.Remove(e) {
		f.kept, f.spared = true, true
		return
	}
	switch err := unlink(f.fd, name, 0); {
	case err == nil:
		s.tally.Files++
		if e.Stat.Nlink <= 1 && e.IsRegular() {
			s.tally.Bytes += e.Stat.Blocks * 512
		}
	case errors.Is(err, unix.ENOENT):
	case errors.Is(err, unix.EISDIR):
		f.subs = append(f.subs, name) // the name was swapped for a directory
	default:
		s.fault(path.Join(s.path(), name), mountError(err))
		f.kept = true
	}
}

// descend enters a subdirectory of the current directory. The kernel refuses a link and a mount
// point, whatever the name was a moment ago.
func (s *sweep) descend(f *frame, name string) {
	fd, err := openat2(f.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0,
		unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_XDEV)
	switch {
	case errors.Is(err, unix.ENOENT):
		s.gone(name)
		return
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		// Since the look, the name was swapped for a link or a file. Look again.
		if !s.again(f) {
			s.gone(name)
			s.fault(path.Join(s.path(), name), errChanged)
			f.kept = true
		}
		return
	case err != nil:
		s.fault(path.Join(s.path(), name), mountError(err))
		f.kept = true
		return
	}
	if err := s.push(fd, name); err != nil {
		s.fault(path.Join(s.path(), name), err)
		f.kept = true
	}
}

// pop leaves the current directory and removes it from its parent if it was emptied.
func (s *sweep) pop(f *frame) {
	n := len(s.frames) - 1
	s.changed(f)
	if n == 0 {
		unix.Close(f.fd)
		s.frames = nil
		return
	}
	parent := s.frames[n-1]
	if parent.fd < 0 && !s.reopen(parent, f) {
		// The enemy moved the directory elsewhere. The rest of the branch is found again from the
		// deepest directory still held open.
		s.gone(f.name)
		s.fault(s.path(), errDeep)
		unix.Close(f.fd)
		s.frames = s.frames[:maxPinned]
		held := s.frames[maxPinned-1]
		held.subs, held.kept = nil, true
		s.again(held)
		return
	}
	e := &Entry{Name: f.name, sweep: s, dir: parent.fd}
	statErr := unix.Fstat(f.fd, &e.Stat)
	unix.Close(f.fd)
	s.frames = slices.Delete(s.frames, n, n+1)
	switch chosen := statErr == nil && s.Remove != nil && s.Remove(e); {
	case !chosen:
		parent.kept, parent.spared = true, true
		return
	case f.kept:
		if parent.kept = true; f.spared && s.Kept != nil {
			s.Kept(e)
		}
		return
	}
	switch err := unlink(parent.fd, f.name, unix.AT_REMOVEDIR); {
	case err == nil:
		s.tally.Dirs++
	case errors.Is(err, unix.ENOENT):
	case (errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOTDIR)) && s.again(parent):
	default:
		s.fault(path.Join(s.path(), f.name), mountError(err))
		parent.kept = true
	}
}

// again schedules another scan of a directory, within the bounds above: an enemy who writes as fast
// as the sweep removes does not hold the sweep forever.
func (s *sweep) again(f *frame) bool {
	if s.Remove == nil || f.scans >= maxScans || s.rescans >= maxRescans || f.pinned && f.scans == 0 {
		return false
	}
	s.rescans++
	f.scanned = false
	return true
}

// reopen finds the parent of the current directory by "..". The directory found is used only if it
// is the directory through which the sweep came.
func (s *sweep) reopen(parent, current *frame) bool {
	fd, err := unix.Openat(current.fd, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Dev != parent.dev || st.Ino != parent.ino {
		unix.Close(fd)
		return false
	}
	parent.fd = fd
	return true
}
