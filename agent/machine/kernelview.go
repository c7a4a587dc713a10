package machine

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Whoever was root may have mounted a file over one of /proc or /sys, which then
// says what he likes. On the running machine both are therefore read from mounts of
// the agent's own that stand in no mount table, where nobody can mount anything. What
// is mounted below them by rule is read where it is mounted: the mount table, which
// is read from the agent's own, says what that is.

// mountedBelow are the places of /proc and /sys with file systems of their own.
var mountedBelow = []string{
	"/proc/fs/nfsd", "/proc/sys/fs/binfmt_misc",
	"/sys/firmware/efi/efivars", "/sys/fs/bpf", "/sys/fs/cgroup", "/sys/fs/fuse/connections", "/sys/fs/pstore", "/sys/fs/resctrl",
	"/sys/fs/selinux", "/sys/fs/smackfs", "/sys/kernel/config", "/sys/kernel/debug", "/sys/kernel/security", "/sys/kernel/tracing",
}

// kernelView mounts a file system of the kernel for this process alone. It is nil
// where the kernel does not let this process do so, as of one that is not root.
func kernelView(fstype string) (*os.File, error) {
	fd, err := unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC)
	if err == nil {
		defer unix.Close(fd)
		err = unix.FsconfigCreate(fd)
	}
	if err == nil {
		const attributes = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
		fd, err = unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, attributes)
	}
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), fstype), nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOSYS):
		return nil, nil
	default:
		return nil, fmt.Errorf("cannot mount %s for the agent alone: %w", fstype, err)
	}
}

// at is the directory that a path is resolved in, and the path in it.
func (m *Machine) at(name string) (dir int, rel string) {
	name = path.Clean("/" + name)
	within := func(top string) bool { return name == top || strings.HasPrefix(name, top+"/") }
	for _, place := range mountedBelow {
		if within(place) {
			return int(m.root.Fd()), below(name)
		}
	}
	for top, view := range map[string]*os.File{"/proc": m.proc, "/sys": m.sys} {
		if view != nil && within(top) {
			return int(view.Fd()), below(strings.TrimPrefix(name, top))
		}
	}
	return int(m.root.Fd()), below(name)
}
