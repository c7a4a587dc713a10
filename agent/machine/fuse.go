package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A FUSE file system is served by a process, usually a tenant's, and the process may never answer.
// A caller that asks the file system waits in the kernel, beyond the reach of SIGKILL, until the
// server is gone or the connection is aborted. Therefore a walk along a path that a tenant may have
// touched asks no FUSE file system, and ends at the mount point.

// ErrFUSE says that a path leads into a file system served by a process.
var ErrFUSE = errors.New("a FUSE file system, which may never answer, is mounted there (detach the mount, or end the process that serves it)")

// fuseConnections opens the kernel's list of FUSE connections in all mount namespaces: one
// directory per connection, named by its device number. Nil if the kernel has no FUSE, or if this
// process may not mount the list.
func fuseConnections() (*os.File, error) {
	f, err := kernelView("fusectl")
	if errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	return f, err
}

// device is a file system's device number, major and minor.
type device [2]uint32

// connection is the kernel's name of the FUSE connection with this device number.
func (d device) connection() string {
	const minorBits = 20
	return strconv.FormatUint(uint64(d[0])<<minorBits|uint64(d[1]), 10)
}

// served reports whether a process serves the file system with this device number.
func (m *Machine) served(d device) (bool, error) {
	if !m.Live() {
		return false, nil
	}
	list, err := fuseConnections()
	if err != nil || list == nil {
		return false, err
	}
	defer list.Close()
	err = unix.Faccessat(int(list.Fd()), d.connection(), unix.F_OK, 0)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, err
}

// walk opens a path as O_PATH and asks no FUSE. No component may be a link, except the last if
// flags has O_NOFOLLOW.
func (m *Machine) walk(dir int, rel string, flags int) (int, error) {
	// A path that stays on one mount meets no FUSE mount point.
	fd, err := openat2(dir, rel, unix.O_PATH|flags, 0, resolveStrict|unix.RESOLVE_NO_XDEV)
	if !errors.Is(err, unix.EXDEV) {
		return fd, err
	}
	at, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	before, err := deviceOf(at)
	parts := strings.Split(rel, "/")
	for i, part := range parts {
		if err != nil {
			break
		}
		last := 0
		if i == len(parts)-1 {
			last = flags
		}
		var next int
		next, err = openat2(at, part, unix.O_PATH|last, 0, resolveStrict)
		if err != nil {
			break
		}
		unix.Close(at)
		at = next
		var here device
		if here, err = deviceOf(at); err != nil || here == before {
			continue
		}
		before = here
		var asks bool
		if asks, err = m.served(here); err == nil && asks {
			err = ErrFUSE
		}
	}
	if err != nil {
		unix.Close(at)
		return -1, err
	}
	return at, nil
}

// deviceOf returns the device number, major and minor, of the file system of an O_PATH descriptor.
// The file system is not asked.
func deviceOf(fd int) (device, error) {
	var st unix.Statx_t
	// The mask is empty: a FUSE refuses everything else to users other than its own.
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, 0, &st)
	return device{st.Dev_major, st.Dev_minor}, err
}

// abortFUSE aborts the FUSE connection of a mount, if the mount is FUSE: waiting processes get an
// error instead of an answer.
func (m *Machine) abortFUSE(d device) error {
	if !m.Live() {
		return nil
	}
	list, err := fuseConnections()
	if err != nil || list == nil {
		return err
	}
	defer list.Close()
	return abort(list, d.connection())
}

func abort(list *os.File, connection string) error {
	fd, err := openat2(int(list.Fd()), connection+"/abort", unix.O_WRONLY, 0, resolveStrict)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = unix.Write(fd, []byte("1"))
		unix.Close(fd)
	}
	if err != nil {
		return fmt.Errorf("cannot abort FUSE connection %s: %w", connection, err)
	}
	return nil
}

// AbortStuckFUSE looks stuckLooks times, stuckPause apart, for waiting requests.
const (
	stuckLooks = 5
	stuckPause = time.Second
)

// AbortStuckFUSE aborts the FUSE connections on which a request waits at each of several looks. It
// is meant for a hanging agent: a working file system aborted by mistake only has to be mounted
// again, but an agent that waits in the kernel cannot even be restarted.
func (m *Machine) AbortStuckFUSE() (aborted []string, err error) {
	if !m.Live() {
		return nil, nil
	}
	list, err := fuseConnections()
	if err != nil || list == nil {
		return nil, err
	}
	defer list.Close()
	fd, err := openat2(int(list.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY, 0, resolveStrict)
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), "fusectl")
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	for look := range stuckLooks {
		if look > 0 && len(names) > 0 {
			time.Sleep(stuckPause)
		}
		var stuck []string
		for _, name := range names {
			if hasWaiting(list, name) {
				stuck = append(stuck, name)
			}
		}
		names = stuck
	}
	for _, name := range names {
		err = errors.Join(err, abort(list, name))
	}
	return names, err
}

func hasWaiting(list *os.File, connection string) bool {
	fd, err := openat2(int(list.Fd()), path.Join(connection, "waiting"), unix.O_RDONLY, 0, resolveStrict)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var buf [32]byte
	n, err := unix.Read(fd, buf[:])
	return err == nil && strings.TrimSpace(string(buf[:max(n, 0)])) != "0"
}
