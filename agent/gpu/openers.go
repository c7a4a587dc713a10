package gpu

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
)

// Opener is a process that has device files of GPUs, or memory that it got through
// them, open or mapped, in whatever namespace it is: the libraries' lists leave out
// what has no context, and what they cannot see.
type Opener struct {
	PID  int    `json:"pid"`
	Name string `json:"name,omitempty"` // its own word
	// Nodes are the device files by their usual names, such as /dev/nvidia0,
	// whatever they are called where the process has them; and DMABuf with the name
	// of a driver, for memory that is handed on without its device file.
	Nodes []string `json:"nodes"`
	// Unseen says why not all that the process has open could be looked at; empty
	// where it could.
	Unseen string `json:"unseen,omitempty"`
}

// DMABuf begins the name of a dma-buf among an Opener's nodes: dma-buf:nvidia.
const DMABuf = "dma-buf:"

// shared are the nodes that belong to no GPU alone. DRM names its dma-bufs alike
// for each of its drivers, and a mapped one does not tell whose it is.
var shared = map[string][]string{
	"nvidia": {
		"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-caps", "/dev/nvidia-modeset",
		DMABuf + "nvidia", DMABuf + "nvidia_drm", DMABuf + "drm", DMABuf + "mapped",
	},
	"amd": {"/dev/kfd", DMABuf + "amdgpu", DMABuf + "drm", DMABuf + "mapped"},
}

// Anywhere reports whether the process may be at any GPU of a vendor: it has what
// belongs to none of them alone.
func (o Opener) Anywhere(vendor string) bool {
	return slices.ContainsFunc(o.Nodes, func(node string) bool { return slices.Contains(shared[vendor], node) })
}

// Openers walks the file descriptors and mappings of every thread of all processes
// but this one. A device file is known by its number, not its name: a container
// names it as it likes. One that ends meanwhile is left out; one that cannot be
// looked at for any other reason is listed, with the reason.
func Openers(m *machine.Machine) ([]Opener, error) {
	devices, err := m.ReadFile("/proc/devices", 64<<10)
	if err != nil {
		return nil, fmt.Errorf("cannot read the majors of device files: %w", err)
	}
	dynamic := parseMajors(string(devices))
	return openers(m, func(rdev uint64) string { return nodeOf(m, rdev, dynamic) })
}

func openers(m *machine.Machine, nodeOf func(rdev uint64) string) ([]Opener, error) {
	pids, err := m.PIDs()
	if err != nil {
		return nil, err
	}
	all, err := m.Processes()
	if err != nil {
		return nil, err
	}
	names, looked := map[int]string{}, []*look{}
	for _, p := range all {
		if p.Unread != nil {
			continue // hidden says why
		}
		names[p.PID] = p.Name
		if p.Kernel || p.PID == unix.Getpid() {
			continue
		}
		l := &look{machine: m, nodeOf: nodeOf, pid: p.PID}
		l.process(p.PID)
		looked = append(looked, l)
	}
	for _, pid := range pids {
		if _, shown := names[pid]; !shown {
			l := &look{machine: m, nodeOf: nodeOf, pid: pid}
			l.hidden(pid)
			looked = append(looked, l)
		}
	}
	waiting(looked)
	var found []Opener
	for _, l := range looked {
		if len(l.nodes) > 0 || l.unseen != "" {
			slices.Sort(l.nodes)
			found = append(found, Opener{PID: l.pid, Name: names[l.pid], Nodes: l.nodes, Unseen: l.unseen})
		}
	}
	return found, nil
}

// exporterOf reads the driver that a dma-buf is of from its fdinfo, whose first line
// of that name is the kernel's: a later one may be the owner's.
func exporterOf(fdinfo string) string {
	for line := range strings.Lines(fdinfo) {
		if name, ok := strings.CutPrefix(line, "exp_name:"); ok {
			return strings.TrimSpace(name)
		}
	}
	return ""
}
