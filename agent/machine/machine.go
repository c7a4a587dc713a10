package machine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Machine is a root directory held open.
type Machine struct {
	dir  string
	root *os.File
	// proc and sys are the agent's own mounts of /proc and /sys on the running machine; nil
	// elsewhere.
	proc, sys *os.File
}

// Open opens the machine whose root directory is dir: "/" in the field.
func Open(dir string) (*Machine, error) {
	root, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_CLOEXEC|os.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the root directory %s: %w", dir, err)
	}
	m := &Machine{dir: path.Clean(dir), root: root}
	if m.Live() {
		if m.proc, err = kernelView("proc"); err == nil {
			m.sys, err = kernelView("sysfs")
		}
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	return m, nil
}

// Close closes the directories.
func (m *Machine) Close() error {
	err := m.root.Close()
	for _, view := range []*os.File{m.proc, m.sys} {
		if view != nil {
			err = errors.Join(err, view.Close())
		}
	}
	return err
}

// Dir returns the root directory as given to Open, cleaned.
func (m *Machine) Dir() string { return m.dir }

// Live reports whether the machine is the running machine and not a directory.
func (m *Machine) Live() bool { return m.dir == "/" }

// ErrNotRegular says that a path, expected to be a regular file, is none.
var ErrNotRegular = errors.New("not a regular file")

var errForged = errors.New("another file was opened in its place: something is mounted over /proc/self/fd")

// resolveTrusted follows links inside the root to places inside the root: for system paths (/etc,
// /usr) that only root writes. /etc/os-release is such a link.
const resolveTrusted = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS

// resolveStrict follows no link at all: for every path that a tenant may write.
const resolveStrict = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS

// openat2 opens name below the directory dir. The caller closes the descriptor.
func openat2(dir int, name string, flags int, mode uint32, resolve uint64) (int, error) {
	how := &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Mode: uint64(mode), Resolve: resolve}
	for {
		fd, err := unix.Openat2(dir, name, how)
		// EAGAIN: a rename elsewhere left the kernel unsure whether the path stayed below dir. The
		// kernel asks to try again.
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		return fd, err
	}
}

// relative turns an absolute path into one relative to the root.
func relative(name string) string {
	rel := strings.TrimPrefix(path.Clean("/"+name), "/")
	if rel == "" {
		return "."
	}
	return rel
}

// ReadFile reads a system file of at most limit bytes, following links inside the root. A larger
// file is an error. Files of /proc and /sys are read to their end, regardless of their reported
// size.
func (m *Machine) ReadFile(name string, limit int64) ([]byte, error) {
	return m.read(name, limit, resolveTrusted)
}

// ReadStrict is ReadFile for a path that a tenant may have touched: no component may be a link.
func (m *Machine) ReadStrict(name string, limit int64) ([]byte, error) {
	return m.read(name, limit, resolveStrict)
}

func (m *Machine) read(name string, limit int64, resolve uint64) ([]byte, error) {
	f, err := m.openRegular(name, resolve)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return raw, nil
}

// readHead reads the first bytes of a system file, at most limit, and ignores the rest.
func (m *Machine) readHead(name string, limit int64) ([]byte, error) {
	f, err := m.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// OpenFile is ReadFile for reading piece by piece.
func (m *Machine) OpenFile(name string) (*os.File, error) {
	return m.openRegular(name, resolveTrusted)
}

// OpenStrict opens a regular file for reading. No component of the path may be a link.
func (m *Machine) OpenStrict(name string) (*os.File, error) {
	return m.openRegular(name, resolveStrict)
}

// openRegular opens a regular file for reading. The inode is checked through O_PATH first, so that
// a FIFO or a device is never opened.
func (m *Machine) openRegular(name string, resolve uint64) (*os.File, error) {
	dir, rel := m.at(name)
	var fd int
	var err error
	if resolve == resolveStrict {
		fd, err = m.walk(dir, rel, 0)
	} else {
		fd, err = openat2(dir, rel, unix.O_PATH, 0, resolve)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	return reopenRegular(fd, name)
}

// reopenRegular turns an O_PATH descriptor of a regular file into a readable file.
func reopenRegular(fd int, name string) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	f, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), os.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	again, err := f.Stat()
	if err == nil {
		if now, ok := again.Sys().(*syscall.Stat_t); !ok || now.Dev != st.Dev || now.Ino != st.Ino {
			err = errForged
		}
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.Join(err, f.Close())}
	}
	return f, nil
}

// OpenDir opens a system directory for reading its names.
func (m *Machine) OpenDir(name string) (*os.File, error) {
	dir, rel := m.at(name)
	fd, err := openat2(dir, rel, unix.O_RDONLY|unix.O_DIRECTORY, 0, resolveTrusted)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// OpenDirStrict opens a directory. No component of the path may be a link. A path inside a FUSE
// file system is ErrFUSE; the file system is not asked.
func (m *Machine) OpenDirStrict(name string) (*os.File, error) {
	dir, rel := m.at(name)
	at, err := m.walk(dir, rel, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(at)
	fd, err := openat2(at, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0, resolveStrict)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Names lists the names in a system directory, unsorted. A missing directory has no names.
func (m *Machine) Names(name string) ([]string, error) {
	d, err := m.OpenDir(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// Lstat looks at a path without following a link in any component. A path inside a FUSE file system
// is ErrFUSE; the file system is not asked.
func (m *Machine) Lstat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	dir, rel := m.at(name)
	fd, err := m.walk(dir, rel, unix.O_NOFOLLOW)
	if err != nil {
		return st, &fs.PathError{Op: "lstat", Path: name, Err: err}
	}
	defer unix.Close(fd)
	return st, unix.Fstat(fd, &st)
}

// resolveStrictLast is resolveStrict for O_PATH|O_NOFOLLOW: there the kernel lets the last
// component itself be a link, unopened.
const resolveStrictLast = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS

// Readlink reads a link of a system path, such as /proc/PID/exe. The text is returned as the link
// holds it.
func (m *Machine) Readlink(name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	dir, rel := m.at(name)
	n, err := unix.Readlinkat(dir, rel, buf)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(buf[:n]), nil
}

// BootID returns the random id that the kernel gave to this boot.
func (m *Machine) BootID() (string, error) {
	raw, err := m.ReadFile("/proc/sys/kernel/random/boot_id", 64)
	return strings.TrimSpace(string(raw)), err
}

// Uptime returns the time since boot.
func (m *Machine) Uptime() (time.Duration, error) {
	raw, err := m.ReadFile("/proc/uptime", 128)
	if err != nil {
		return 0, err
	}
	return parseUptime(raw)
}

func parseUptime(raw []byte) (time.Duration, error) {
	first, _, _ := strings.Cut(strings.TrimSpace(string(raw)), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil || seconds < 0 || seconds > 1e9 {
		return 0, fmt.Errorf("cannot parse /proc/uptime")
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// Space is the size and the free space of a file system, in bytes.
type Space struct{ Total, Free int64 }

// Space looks at the file system that holds the directory name. Free is the space that root may
// still write.
func (m *Machine) Space(name string) (Space, error) {
	d, err := m.OpenDir(name)
	if err != nil {
		return Space{}, err
	}
	defer d.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(d.Fd()), &st); err != nil {
		return Space{}, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	return Space{Total: int64(st.Blocks) * st.Bsize, Free: int64(st.Bfree) * st.Bsize}, nil
}
