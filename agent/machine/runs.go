package machine

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// Runs reports whether a process runs this program of the machine. Runs compares the files
// themselves: the text of /proc/PID/exe is a path in the process's own mount namespace. Runs
// reports false if something is mounted over the program.
func (m *Machine) Runs(pid int, program string) (bool, error) {
	var ours unix.Statx_t
	its, err := m.StatOpen(procPath(pid, "exe"))
	if err != nil {
		return false, err
	}
	dir, rel := m.at(program)
	fd, err := openat2(dir, rel, unix.O_PATH, 0, resolveTrusted)
	if err != nil {
		return false, &fs.PathError{Op: "open", Path: program, Err: err}
	}
	defer unix.Close(fd)
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &ours); err != nil {
		return false, &fs.PathError{Op: "stat", Path: program, Err: err}
	}
	same := its.Ino == ours.Ino && its.Dev_major == ours.Dev_major && its.Dev_minor == ours.Dev_minor
	return same && ours.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0, nil
}
