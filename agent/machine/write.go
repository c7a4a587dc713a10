package machine

import (
	"crypto/rand"
	"encoding/hex"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"
)

// WriteFile replaces a whole file, with owner and mode, or leaves the file as it was. The directory
// must exist, and no component of the path may be a link. A link under the name itself is replaced,
// never followed.
func (m *Machine) WriteFile(name string, content []byte, mode uint32, uid, gid int) error {
	d, err := m.OpenDirStrict(path.Dir(path.Clean(name)))
	if err != nil {
		return err
	}
	defer d.Close()
	fail := func(op string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }
	var random [8]byte
	rand.Read(random[:])
	temporary := ".hostler-" + hex.EncodeToString(random[:])
	fd, err := openat2(int(d.Fd()), temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600, resolveStrict)
	if err != nil {
		return fail("create", err)
	}
	defer unix.Close(fd)
	err = func() error {
		for rest := content; len(rest) > 0; {
			n, err := unix.Write(fd, rest)
			if err != nil {
				return fail("write", err)
			}
			rest = rest[n:]
		}
		if err := unix.Fchown(fd, uid, gid); err != nil {
			return fail("chown", err)
		}
		if err := unix.Fchmod(fd, mode); err != nil {
			return fail("chmod", err)
		}
		if err := unix.Fsync(fd); err != nil {
			return fail("fsync", err)
		}
		return nil
	}()
	if err == nil {
		if err = unix.Renameat(int(d.Fd()), temporary, int(d.Fd()), path.Base(name)); err != nil {
			err = fail("rename", err)
		}
	}
	if err != nil {
		unix.Unlinkat(int(d.Fd()), temporary, 0)
		return err
	}
	return d.Sync()
}

// MakeDir creates a directory with owner and mode. An existing directory that is not a link is
// given owner and mode.
func (m *Machine) MakeDir(name string, mode uint32, uid, gid int) error {
	d, err := m.OpenDirStrict(path.Dir(path.Clean(name)))
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Mkdirat(int(d.Fd()), path.Base(name), 0o700); err != nil && err != unix.EEXIST {
		return &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}
	made, err := m.OpenDirStrict(name)
	if err != nil {
		return err
	}
	defer made.Close()
	if err := unix.Fchown(int(made.Fd()), uid, gid); err != nil {
		return &fs.PathError{Op: "chown", Path: name, Err: err}
	}
	if err := unix.Fchmod(int(made.Fd()), mode); err != nil {
		return &fs.PathError{Op: "chmod", Path: name, Err: err}
	}
	return nil
}
