package machine

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// PIDs lists the numbers in /proc.
func (m *Machine) PIDs() ([]int, error) {
	names, err := m.namesOf("/proc")
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	var all []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 0 {
			all = append(all, pid)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("cannot list processes: /proc shows none")
	}
	return all, nil
}

func procPath(pid int, name string) string { return path.Join("/proc", strconv.Itoa(pid), name) }

// Exe is the path of what a process runs, as the kernel tells it: a file that
// was deleted has " (deleted)" at its end.
func (m *Machine) Exe(pid int) (string, error) { return m.Readlink(procPath(pid, "exe")) }

// Cgroup is a process's place in the unified hierarchy, or in systemd's own
// where the machine still has the old ones.
func (m *Machine) Cgroup(pid int) (string, error) {
	raw, err := m.ReadFile(procPath(pid, "cgroup"), 64<<10)
	return parseCgroup(string(raw)), err
}

func parseCgroup(text string) string {
	found := ""
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) == 3 && (f[1] == "name=systemd" || f[1] == "" && found == "") {
			found = f[2]
		}
	}
	return found
}

// NetNS is the network namespace a process is in.
func (m *Machine) NetNS(pid int) (string, error) { return m.Readlink(procPath(pid, "ns/net")) }

// TickTime is how long a clock tick of /proc is, in seconds. It is 100 Hz in
// every user ABI of Linux on the machines GPUs are in.
const TickTime = 0.01

// Has reports whether a system path is there. Directories above it may be
// links within the root, as most of sysfs is.
func (m *Machine) Has(name string) (bool, error) {
	dir, rel := m.at(name)
	fd, err := openat2(dir, rel, unix.O_PATH|unix.O_NOFOLLOW, 0, resolveTrusted)
	switch err {
	case nil:
		unix.Close(fd)
		return true, nil
	case unix.ENOENT, unix.ENOTDIR:
		return false, nil
	default:
		return false, fmt.Errorf("cannot look at %s: %w", name, err)
	}
}
