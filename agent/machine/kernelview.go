package machine

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// A former root may have mounted a file over a file of /proc or /sys, with any content. On the
// running machine both trees are therefore read from the agent's own mounts, which are in no mount
// table, so that nobody can mount anything over them. File systems that are regularly mounted below
// /proc and /sys are read at their usual place: the mount table, read from the agent's own /proc,
// shows what is mounted there.

// mountedBelow are the places of /proc and /sys with file systems of their own.
var mountedBelow = []string{
	"/proc/fs/nfsd", "/proc/sys/fs/binfmt_misc",
	"/sys/firmware/efi/efivars", "/sys/fs/bpf", "/sys/fs/cgroup", "/sys/fs/fuse/connections", "/sys/fs/pstore", "/sys/fs/resctrl",
	"/sys/fs/selinux", "/sys/fs/smackfs", "/sys/kernel/config", "/sys/kernel/debug", "/sys/kernel/security", "/sys/kernel/tracing",
}

// kernelView mounts a file system of the kernel for this process alone. It returns nil if the
// kernel forbids the mount, for example because the process is not root.
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

// at returns the directory in which a path is resolved, and the path relative to the directory.
func (m *Machine) at(name string) (dir int, rel string) {
	name = path.Clean("/" + name)
	within := func(top string) bool { return name == top || strings.HasPrefix(name, top+"/") }
	for _, place := range mountedBelow {
		if within(place) {
			return int(m.root.Fd()), relative(name)
		}
	}
	for top, view := range map[string]*os.File{"/proc": m.proc, "/sys": m.sys} {
		if view != nil && within(top) {
			return int(view.Fd()), relative(strings.TrimPrefix(name, top))
		}
	}
	return int(m.root.Fd()), relative(name)
}
