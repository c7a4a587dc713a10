package machine

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenWork opens a file of the agent's own for reading and writing, and creates it if it is missing.
// Anything else under the name, such as a link or a file of somebody else, is removed first. Missing
// directories are made, as root's, with mode 0755.
func (b *Below) OpenWork(name string) (*os.File, error) {
	at, base, err := b.parent(name, true)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	dir := int(at.dir.Fd())
	for range 3 {
		fd, err := openat2(dir, base, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600, resolveBelow)
		if err == nil {
			return os.NewFile(uintptr(fd), name), at.dir.Sync()
		}
		if !errors.Is(err, unix.EEXIST) {
			return nil, &fs.PathError{Op: "create", Path: name, Err: err}
		}
		var st unix.Stat_t
		if unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && ownWork(st) {
			fd, err := openat2(dir, base, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0, resolveBelow)
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
func (b *Below) Publish(work *os.File, name string, mode uint32) error {
	at, base, err := b.parent(name, false)
	if err != nil {
		return err
	}
	defer at.Close()
	d := at.dir
	if err := same(d, work, work.Name()); err != nil {
		return err
	}
	if err := errors.Join(unix.Fchmod(int(work.Fd()), mode), work.Sync()); err != nil {
		return &fs.PathError{Op: "chmod", Path: name, Err: err}
	}
	if err := unix.Renameat(int(d.Fd()), path.Base(work.Name()), int(d.Fd()), base); err != nil {
		return &fs.PathError{Op: "rename", Path: name, Err: err}
	}
	if err := same(d, work, name); err != nil {
		return errors.Join(err, unlink(int(d.Fd()), base, 0))
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

// Rename gives a file another name in the same directory. What had that name is replaced.
func (b *Below) Rename(from, to string) error {
	at, base, err := b.parent(from, false)
	if err != nil {
		return err
	}
	defer at.Close()
	if err := unix.Renameat(int(at.dir.Fd()), base, int(at.dir.Fd()), path.Base(to)); err != nil {
		return &fs.PathError{Op: "rename", Path: path.Join(b.dir.Name(), from), Err: err}
	}
	return at.dir.Sync()
}

// Remove removes a name that is no directory. A missing name is no error.
func (b *Below) Remove(name string) error { return b.unlink(name, 0) }

// RemoveDir removes a directory that is empty. A missing one is no error.
func (b *Below) RemoveDir(name string) error { return b.unlink(name, unix.AT_REMOVEDIR) }

func (b *Below) unlink(name string, flags int) error {
	at, base, err := b.parent(name, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer at.Close()
	if err := unlink(int(at.dir.Fd()), base, flags); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "remove", Path: path.Join(b.dir.Name(), name), Err: err}
	}
	return nil
}
