package machine

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// PIDs lists the process ids in /proc.
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
		return nil, fmt.Errorf("cannot list processes: /proc shows no process")
	}
	return all, nil
}

func procPath(pid int, name string) string { return path.Join("/proc", strconv.Itoa(pid), name) }

// Exe returns the path of the program that a process runs, as the kernel reports it: the path of a
// deleted file ends with " (deleted)".
func (m *Machine) Exe(pid int) (string, error) { return m.Readlink(procPath(pid, "exe")) }

// Cgroup returns a process's place in the unified hierarchy, or in systemd's own hierarchy if the
// machine still has the old hierarchies.
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

// NetNS returns the network namespace of a process.
func (m *Machine) NetNS(pid int) (string, error) { return m.Readlink(procPath(pid, "ns/net")) }

// TickTime is the length of a clock tick of /proc, in seconds. The rate is 100 Hz in every user ABI
// of Linux on machines with GPUs.
const TickTime = 0.01

// Has reports whether a system path exists. Directories above may be links within the root, as most
// of sysfs is.
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
