package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Below is a directory held open, below which files are read and written. No component below it is a
// link, and none is on another mount.
type Below struct{ dir *os.File }

// resolveBelow keeps a path below its directory: no .., no link, no other mount.
const resolveBelow = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV

// Below opens a directory. No component of its path may be a link.
func (m *Machine) Below(name string) (*Below, error) {
	dir, err := m.OpenDirStrict(name)
	if err != nil {
		return nil, err
	}
	return &Below{dir}, nil
}

// MakeBelow is Below for a directory that may be missing: it makes the missing components, as root's,
// with mode 0755.
func (m *Machine) MakeBelow(name string) (*Below, error) {
	name = path.Clean("/" + name)
	b, err := m.Below(name)
	if name == "/" || !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	above, err := m.MakeBelow(path.Dir(name))
	if err != nil {
		return nil, err
	}
	defer above.Close()
	return above.enter(path.Base(name), true)
}

// Close closes the directory.
func (b *Below) Close() { _ = b.dir.Close() }

// enter opens a directory directly below.
func (b *Below) enter(name string, create bool) (*Below, error) {
	fail := func(op string, err error) error {
		return &fs.PathError{Op: op, Path: path.Join(b.dir.Name(), name), Err: err}
	}
	if create {
		if err := b.mkdir(name); err != nil {
			return nil, fail("mkdir", err)
		}
	}
	fd, err := openat2(int(b.dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0, resolveBelow)
	if err != nil {
		return nil, fail("open", err)
	}
	return &Below{os.NewFile(uintptr(fd), path.Join(b.dir.Name(), name))}, nil
}

// mkdir makes a directory directly below, if it is missing, with its mode whatever the mask of the
// process. It appears under its name with the mode: a kill leaves only what the next call replaces.
func (b *Below) mkdir(name string) error {
	dir := int(b.dir.Fd())
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); !errors.Is(err, unix.ENOENT) {
		return err
	}
	temporary := temporaryName(name)
	if err := unix.Unlinkat(dir, temporary, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	if err := unix.Mkdirat(dir, temporary, 0o755); err != nil {
		return err
	}
	fd, err := openat2(dir, temporary, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0, resolveBelow)
	if err == nil {
		err = errors.Join(unix.Fchmod(fd, 0o755), unix.Close(fd))
	}
	if err == nil {
		err = unix.Renameat(dir, temporary, dir, name)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, temporary, unix.AT_REMOVEDIR)
		if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			return nil // somebody else has made it
		}
		return err
	}
	return b.dir.Sync()
}

// temporaryName is the name under which what gets a name is made.
func temporaryName(name string) string {
	sum := sha256.Sum256([]byte(name))
	return ".hostler-new-" + hex.EncodeToString(sum[:8])
}

// parent opens the directory of a name, step by step. The caller closes it.
func (b *Below) parent(name string, create bool) (at *Below, base string, err error) {
	fd, err := unix.FcntlInt(b.dir.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, "", err
	}
	at = &Below{os.NewFile(uintptr(fd), b.dir.Name())}
	parts := strings.Split(name, "/")
	for _, part := range parts[:len(parts)-1] {
		next, err := at.enter(part, create)
		at.Close()
		if err != nil {
			return nil, "", err
		}
		at = next
	}
	return at, parts[len(parts)-1], nil
}

// Open opens a regular file for reading.
func (b *Below) Open(name string) (*os.File, error) {
	fd, err := openat2(int(b.dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW, 0, resolveBelow)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path.Join(b.dir.Name(), name), Err: err}
	}
	defer unix.Close(fd)
	return reopenRegular(fd, path.Join(b.dir.Name(), name))
}

// Names lists a directory.
func (b *Below) Names(name string) ([]string, error) {
	fd, err := openat2(int(b.dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0, resolveBelow)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path.Join(b.dir.Name(), name), Err: err}
	}
	d := os.NewFile(uintptr(fd), name)
	names, err := d.Readdirnames(-1)
	return names, errors.Join(err, d.Close())
}

// Write replaces a whole file, with owner and mode, or leaves what was there. It makes missing
// directories, as root's, with mode 0755. What a crash left of an earlier Write of the same name is
// replaced.
func (b *Below) Write(name string, content []byte, mode uint32, uid, gid int) error {
	at, base, err := b.parent(name, true)
	if err != nil {
		return err
	}
	defer at.Close()
	dir := int(at.dir.Fd())
	fail := func(op string, err error) error {
		return &fs.PathError{Op: op, Path: path.Join(b.dir.Name(), name), Err: err}
	}
	temporary := temporaryName(base)
	if err := unix.Unlinkat(dir, temporary, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fail("unlink", err)
	}
	fd, err := openat2(dir, temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600, resolveBelow)
	if err != nil {
		return fail("create", err)
	}
	f := os.NewFile(uintptr(fd), temporary)
	_, err = f.Write(content)
	if err == nil { // chown clears bits of the mode: it comes first
		err = errors.Join(unix.Fchown(fd, uid, gid), unix.Fchmod(fd, mode), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = unix.Renameat(dir, temporary, dir, base)
	}
	if err != nil {
		return fail("write", errors.Join(err, unix.Unlinkat(dir, temporary, 0)))
	}
	return at.dir.Sync()
}
