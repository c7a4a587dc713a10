package machine

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Entry is a name in a directory, as it was when the sweep looked.
type Entry struct {
	Name string
	Stat unix.Stat_t

	sweep   *sweep
	dir     int  // descriptor of the directory that holds the name
	mounted bool // the name is a mount point, and Stat describes the mounted root
}

// LostAndFound reports whether the entry is the directory lost+found of fsck, below the swept
// directory. Another user's directory of the same name does not count.
func (e *Entry) LostAndFound() bool {
	return e.Name == "lost+found" && e.Depth() == 1 && e.IsDir() && e.Stat.Uid == 0 && e.Stat.Mode&0o022 == 0
}

// look asks no FUSE file system: the kernel itself reports whether the name is a mount point, and
// answers for the mounted file system from its cache.
func (e *Entry) look() error {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	var st unix.Statx_t
	err := unix.Statx(e.dir, e.Name, flags, unix.STATX_BASIC_STATS, &st)
	if errors.Is(err, unix.EACCES) { // a FUSE for its user alone refuses everything else
		if unix.Statx(e.dir, e.Name, flags, 0, &st) == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
			return ErrMount
		}
	}
	if err != nil {
		return err
	}
	e.mounted = st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	e.Stat = unix.Stat_t{
		Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino, Mode: uint32(st.Mode), Uid: st.Uid, Gid: st.Gid,
		Rdev: unix.Mkdev(st.Rdev_major, st.Rdev_minor), Size: int64(st.Size), Blocks: int64(st.Blocks),
	}
	widen(&e.Stat.Nlink, st.Nlink)
	return nil
}

// widen sets a number whose width depends on the architecture.
func widen[T ~uint32 | ~uint64](to *T, n uint32) { *to = T(n) }

// IsDir reports whether the entry is a directory.
func (e *Entry) IsDir() bool { return e.Stat.Mode&unix.S_IFMT == unix.S_IFDIR }

// IsRegular reports whether the entry is a regular file.
func (e *Entry) IsRegular() bool { return e.Stat.Mode&unix.S_IFMT == unix.S_IFREG }

// Depth is 1 for an entry of the directory in which the sweep started.
func (e *Entry) Depth() int { return len(e.sweep.frames) }

// Path returns the entry's path from the machine's root.
func (e *Entry) Path() string { return path.Join(e.sweep.path(), e.Name) }

// Open opens the entry if it is still the regular file that the sweep looked at.
func (e *Entry) Open() (*os.File, error) {
	fd, err := openat2(e.dir, e.Name, unix.O_PATH|unix.O_NOFOLLOW, 0, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_XDEV)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Ino != e.Stat.Ino || st.Dev != e.Stat.Dev {
		return nil, errChanged
	}
	return reopenRegular(fd, e.Name)
}
