package gpu

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
)

// Opener is a process that has device files of GPUs, or GPU memory obtained through them, open or
// mapped, in any namespace. The libraries' own lists omit processes without a context, and
// processes they cannot see.
type Opener struct {
	PID  int    `json:"pid"`
	Name string `json:"name,omitempty"` // chosen by the process
	// Nodes are the device files by their usual names, such as /dev/nvidia0, whatever their names
	// in the process's namespace; and DMABuf plus a driver's name, for memory passed on without its
	// device file.
	Nodes []string `json:"nodes"`
	// Unseen says why some open files of the process could not be inspected; empty if all were.
	Unseen string `json:"unseen,omitempty"`
}

// DMABuf is the prefix of a dma-buf among an Opener's nodes: dma-buf:nvidia.
const DMABuf = "dma-buf:"

// shared are the nodes that belong to no single GPU. DRM gives the dma-bufs of all its drivers the
// same name, and a mapped dma-buf does not name its exporter.
var shared = map[string][]string{
	"nvidia": {
		"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-caps", "/dev/nvidia-modeset",
		DMABuf + "nvidia", DMABuf + "nvidia_drm", DMABuf + "drm", DMABuf + "mapped",
	},
	"amd": {"/dev/kfd", DMABuf + "amdgpu", DMABuf + "drm", DMABuf + "mapped"},
}

// Anywhere reports whether the process may use any GPU of a vendor: it has a shared node open.
func (o Opener) Anywhere(vendor string) bool {
	return slices.ContainsFunc(o.Nodes, func(node string) bool { return slices.Contains(shared[vendor], node) })
}

// Openers inspects the file descriptors and mappings of every thread of all processes but this one.
// A device file is identified by its number, not its name, because a container may rename it. A
// process that ends meanwhile is left out. A process that cannot be inspected for any other reason
// is listed, with the reason.
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
	names, looked := map[int]string{}, []*processScan{}
	for _, p := range all {
		if p.Unread != nil {
			continue // hidden says why
		}
		names[p.PID] = p.Name
		if p.Kernel || p.PID == unix.Getpid() {
			continue
		}
		l := &processScan{machine: m, nodeOf: nodeOf, pid: p.PID}
		l.process(p.PID)
		looked = append(looked, l)
	}
	for _, pid := range pids {
		if _, shown := names[pid]; !shown {
			l := &processScan{machine: m, nodeOf: nodeOf, pid: pid}
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

// exporterOf reads the exporting driver of a dma-buf from its fdinfo. Only the first exp_name line
// is the kernel's: a later line may come from the buffer's owner.
func exporterOf(fdinfo string) string {
	for line := range strings.Lines(fdinfo) {
		if name, ok := strings.CutPrefix(line, "exp_name:"); ok {
			return strings.TrimSpace(name)
		}
	}
	return ""
}
