package gpu

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
)

// Opener is a process that has device files of GPUs open or mapped, in whatever
// namespace it is: the libraries' lists leave out what has no context, and what
// they cannot see.
type Opener struct {
	PID  int    `json:"pid"`
	Name string `json:"name,omitempty"` // its own word
	// Nodes are the device files by their usual names, such as /dev/nvidia0,
	// whatever they are called where the process has them.
	Nodes []string `json:"nodes"`
}

// Majors of device files with a fixed number, and the names under which
// /proc/devices lists the others.
const (
	majorNVIDIA = 195
	majorDRM    = 226
)

var dynamicNodes = map[string]string{
	"nvidia-uvm": "/dev/nvidia-uvm", "nvidia-caps": "/dev/nvidia-caps", "nvidia-nvlink": "/dev/nvidia-nvlink",
	"nvidia-nvswitch": "/dev/nvidia-nvswitch", "kfd": "/dev/kfd",
}

// Openers walks the file descriptors and shared mappings of all processes but this
// one. A device file is known by its number, not its name: a container names it as
// it likes.
func Openers(m *machine.Machine) ([]Opener, error) {
	devices, err := m.ReadFile("/proc/devices", 64<<10)
	if err != nil {
		return nil, fmt.Errorf("cannot read the majors of device files: %w", err)
	}
	dynamic := parseMajors(string(devices))
	return openers(m, func(rdev uint64) string { return nodeOf(rdev, dynamic) })
}

func openers(m *machine.Machine, nodeOf func(rdev uint64) string) ([]Opener, error) {
	all, err := m.Processes()
	if err != nil {
		return nil, err
	}
	var found []Opener
	for _, p := range all {
		if p.Kernel || p.PID == unix.Getpid() {
			continue
		}
		dir := "/proc/" + strconv.Itoa(p.PID)
		var nodes []string
		for _, link := range append(descriptors(m, dir), mappings(m, dir)...) {
			// Not asking the file system: it may be a tenant's, which never answers.
			var st unix.Statx_t
			err := unix.Statx(unix.AT_FDCWD, path.Join(m.Dir(), link), unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
			if err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
				continue // closed meanwhile, or nothing of ours
			}
			if node := nodeOf(unix.Mkdev(st.Rdev_major, st.Rdev_minor)); node != "" && !slices.Contains(nodes, node) {
				nodes = append(nodes, node)
			}
		}
		if len(nodes) > 0 {
			slices.Sort(nodes)
			found = append(found, Opener{PID: p.PID, Name: p.Name, Nodes: nodes})
		}
	}
	return found, nil
}

func descriptors(m *machine.Machine, dir string) []string {
	names, err := m.Names(dir + "/fd")
	if err != nil {
		return nil // it ended
	}
	links := make([]string, len(names))
	for i, fd := range names {
		links[i] = dir + "/fd/" + fd
	}
	return links
}

// mappings are those that stay when the descriptor is closed. Only shared ones of a
// file are looked at: a device's memory cannot be mapped otherwise.
func mappings(m *machine.Machine, dir string) []string {
	maps, err := m.ReadFile(dir+"/maps", 16<<20)
	if err != nil {
		return nil
	}
	var links []string
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line)
		if len(f) >= 6 && strings.HasSuffix(f[1], "s") && strings.HasPrefix(f[5], "/") {
			links = append(links, dir+"/map_files/"+f[0])
		}
	}
	return links
}

// parseMajors reads the character devices of /proc/devices: major to name.
func parseMajors(text string) map[uint32]string {
	majors := map[uint32]string{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 2 && f[0] == "Block" {
			break
		}
		if n, err := strconv.ParseUint(strings.Join(f[:min(1, len(f))], ""), 10, 32); err == nil && len(f) == 2 {
			majors[uint32(n)] = f[1]
		}
	}
	return majors
}

// nodeOf names the device file of a GPU by its number; empty for any other.
func nodeOf(rdev uint64, dynamic map[uint32]string) string {
	major, minor := unix.Major(rdev), unix.Minor(rdev)
	switch {
	case major == majorNVIDIA && minor == 255:
		return "/dev/nvidiactl"
	case major == majorNVIDIA && minor == 254:
		return "/dev/nvidia-modeset"
	case major == majorNVIDIA:
		return fmt.Sprintf("/dev/nvidia%d", minor)
	case major == majorDRM && minor >= 128:
		return fmt.Sprintf("/dev/dri/renderD%d", minor)
	}
	// /dev/dri/card* are the display's: a console holds the management
	// controller's all the time. Who computes has a render node.
	return dynamicNodes[dynamic[major]]
}
