package machine

import (
	"io/fs"
	"path"

	"golang.org/x/sys/unix"
)

// StatIn looks at a path as seen by a process whose root directory is the magic link root, such as
// /proc/PID/root. No other link is followed, and no FUSE is asked: a tenant's FUSE may never
// answer.
func (m *Machine) StatIn(root, name string) (unix.Statx_t, error) {
	var st unix.Statx_t
	at, rel := m.at(root)
	dir, err := unix.Openat(at, rel, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return st, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(dir)
	fd, err := m.walk(dir, relative(name), unix.O_NOFOLLOW)
	if err == nil {
		defer unix.Close(fd)
		err = unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
	}
	if err != nil {
		return st, &fs.PathError{Op: "stat", Path: path.Join(root, name), Err: err}
	}
	return st, nil
}

// StatOpen looks at the target of a link of /proc, such as /proc/PID/fd/3, without asking the file
// system of the target.
func (m *Machine) StatOpen(name string) (unix.Statx_t, error) {
	var st unix.Statx_t
	dir, rel := m.at(name)
	if err := unix.Statx(dir, rel, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &st); err != nil {
		return st, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return st, nil
}
