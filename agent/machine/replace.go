package machine

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenStrict opens a regular file for reading. No component of the path may be a link.
func (m *Machine) OpenStrict(name string) (*os.File, error) {
	return m.openRegular(name, resolveStrict)
}

// MakeMissingDirs creates the directory and its parents where they are missing, for everybody to
// read. What exists stays as it is. No component of the path may be a link.
func (m *Machine) MakeMissingDirs(name string) error {
	parts := strings.Split(relative(name), "/")
	for i, part := range parts {
		d, err := m.OpenDirStrict("/" + path.Join(parts[:i]...))
		if err != nil {
			return err
		}
		err = unix.Mkdirat(int(d.Fd()), part, 0o755)
		if err == nil {
			err = errors.Join(readable(d, part), d.Sync())
		}
		d.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return &fs.PathError{Op: "mkdir", Path: "/" + path.Join(parts[:i+1]...), Err: err}
		}
	}
	return nil
}

// readable gives a new directory its mode, whatever the mask of the process.
func readable(d *os.File, name string) error {
	fd, err := openat2(int(d.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0, resolveStrict)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fchmod(fd, 0o755)
}

// OpenWork opens a file of the agent's own for reading and writing, and creates it if it is missing.
// Anything else under the name, such as a link or a file of somebody else, is removed first. The
// directory must exist, and no component of the path may be a link.
func (m *Machine) OpenWork(name string) (*os.File, error) {
	d, err := m.OpenDirStrict(path.Dir(path.Clean(name)))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	dir, base := int(d.Fd()), path.Base(name)
	for range 3 {
		fd, err := openat2(dir, base, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600, resolveStrict)
		if err == nil {
			return os.NewFile(uintptr(fd), name), d.Sync()
		}
		if !errors.Is(err, unix.EEXIST) {
			return nil, &fs.PathError{Op: "create", Path: name, Err: err}
		}
		var st unix.Stat_t
		if unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && ownWork(st) {
			fd, err := openat2(dir, base, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0, resolveStrict)
			if err == nil && unix.Fstat(fd, &st) == nil && ownWork(st) {
				return os.NewFile(uintptr(fd), name), nil
			}
			if err == nil {
				unix.Close(fd)
			}
		}
		if err := unlink(dir, base, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return nil, &fs.PathError{Op: "remove", Path: name, Err: err}
		}
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: errForeign}
}

var errForeign = errors.New("another file appears under the name again and again")

// ownWork reports whether a file is one that OpenWork has created, and that nobody else can write. It has
// mode 0644 if the agent was killed in Publish, before the file had its name.
func ownWork(st unix.Stat_t) bool {
	mode := st.Mode & 0o7777
	return st.Mode&unix.S_IFMT == unix.S_IFREG && (mode == 0o600 || mode == 0o644) && st.Nlink == 1 && int(st.Uid) == os.Geteuid()
}

// Publish gives a file of OpenWork its final name in the same directory, and its mode. The name
// leads to this file or is not changed: a file that was put in the place of the work is refused.
func (m *Machine) Publish(work *os.File, name string, mode uint32) error {
	d, err := m.OpenDirStrict(path.Dir(path.Clean(name)))
	if err != nil {
		return err
	}
	defer d.Close()
	if err := same(d, work, work.Name()); err != nil {
		return err
	}
	if err := errors.Join(unix.Fchmod(int(work.Fd()), mode), work.Sync()); err != nil {
		return &fs.PathError{Op: "chmod", Path: name, Err: err}
	}
	if err := unix.Renameat(int(d.Fd()), path.Base(work.Name()), int(d.Fd()), path.Base(name)); err != nil {
		return &fs.PathError{Op: "rename", Path: name, Err: err}
	}
	if err := same(d, work, name); err != nil {
		return errors.Join(err, unlink(int(d.Fd()), path.Base(name), 0))
	}
	return d.Sync()
}

// same refuses a name in the directory that does not lead to the file.
func same(d, f *os.File, name string) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(d.Fd()), path.Base(name), &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		var info os.FileInfo
		if info, err = f.Stat(); err == nil {
			if own, ok := info.Sys().(*syscall.Stat_t); !ok || own.Ino != st.Ino || own.Dev != st.Dev {
				err = errReplaced
			}
		}
	}
	if err != nil {
		return &fs.PathError{Op: "rename", Path: name, Err: err}
	}
	return nil
}

var errReplaced = errors.New("another file was put in its place meanwhile")

// RemoveFile removes a name that is no directory. A missing name is no error. No component of the path before
// the name may be a link.
func (m *Machine) RemoveFile(name string) error {
	d, err := m.OpenDirStrict(path.Dir(path.Clean(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unlink(int(d.Fd()), path.Base(name), 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}
