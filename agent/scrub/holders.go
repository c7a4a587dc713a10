package scrub

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// computing names the libraries that a program maps to compute on a vendor's GPUs.
var computing = map[string][]string{"nvidia": {"libcuda.so"}, "amd": {"libamdhip64.so", "libhsa-runtime64.so"}}

// kfdProcesses has a folder for each process that uses AMD's compute driver, named by its number in
// the first PID namespace.
const kfdProcesses = "/sys/class/kfd/kfd/proc"

// holder is a process that holds one or more GPUs.
type holder struct {
	process machine.Process
	gpus    map[string]bool // uuids; nil: any GPU of the vendor
	listed  bool            // listed by the library as a computing process
	own     bool            // the agent's, or process 1
	exempt  bool
	unsure  string // why nobody can tell whether the process holds a GPU
	out     taskcatalog.GPUHolder
}

func (h *holder) holds(u *unit) bool { return h.gpus == nil || h.gpus[u.facts.UUID] }

func (h *holder) same(o *holder) bool {
	return h.process.PID == o.process.PID && h.process.Start == o.process.Start
}

// at adds a GPU; "" is any GPU of the vendor.
func (h *holder) at(uuid string) {
	if uuid == "" {
		h.gpus = nil
	} else if h.gpus != nil {
		h.gpus[uuid] = true
	}
}

// holders finds the processes that hold the units' GPUs, all of the same vendor: by open device
// files in every PID namespace below the agent's, by the compute driver, and by the library's own
// lists.
func (s *Scrub) holders(ctx context.Context, units []*unit) ([]*holder, error) {
	vendor, byPID := units[0].device.Vendor, map[int]*holder{}
	owners := map[string][]string{}
	for d, of := range gpus(s.units) {
		for _, name := range of[0].before.Nodes {
			if d.Vendor == vendor {
				owners[name] = append(owners[name], d.UUID)
			}
		}
	}
	// A process with a GPU's own device file open holds this GPU, even if the GPU is no longer
	// worth work. A process with a shared device file open may hold any GPU.
	opened, err := s.Openers(s.Machine)
	if err != nil {
		return nil, fmt.Errorf("cannot find who has a GPU open: %w", err)
	}
	for _, o := range opened {
		var at []string
		for _, name := range o.Nodes {
			at = append(at, owners[name]...)
		}
		if at == nil && (o.Anywhere(vendor) || o.Unseen != "") {
			at = []string{""}
		}
		for _, uuid := range at {
			s.seen(byPID, o.PID, uuid)
		}
		if h := byPID[o.PID]; h != nil && len(o.Nodes) == 0 {
			h.unsure, h.out.Outcome = o.Unseen, "unseen"
		}
	}
	if vendor == "amd" {
		names, err := s.Machine.Names(kfdProcesses)
		if err != nil {
			return nil, fmt.Errorf("cannot list the processes at the compute driver: %w", err)
		}
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil && byPID[pid] == nil {
				s.seen(byPID, pid, "")
			}
		}
	}
	for d, listed := range queryEach(gpus(units), func(d gpu.Device) answer[[]gpu.Holder] { return answerOf(s.Helper.Holders(ctx, d)) }) {
		if listed.err != nil {
			for _, u := range gpus(units)[d] {
				u.failed("cannot list the processes on the GPU", listed.err)
			}
		}
		for _, l := range listed.value {
			s.listed(byPID, vendor, int(l.PID), d.UUID)
		}
	}
	all := make([]*holder, 0, len(byPID))
	for _, h := range byPID {
		if h.exempt, err = s.exempt(ctx, h); err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b *holder) int { return a.process.PID - b.process.PID })
	return all, nil
}

// seen adds a process that this machine itself shows at a GPU.
func (s *Scrub) seen(byPID map[int]*holder, pid int, uuid string) {
	h := byPID[pid]
	if h == nil {
		p, err := s.Machine.Process(pid)
		if err != nil {
			if there, lookErr := s.Machine.Has(path.Join("/proc", strconv.Itoa(pid))); lookErr == nil && !there {
				return // the process has ended
			}
			p = machine.Process{PID: pid} // something is mounted over it
		}
		h = s.holder(p, "open_device")
		if err != nil {
			h.out.Outcome = "unseen"
		}
		byPID[pid] = h
	}
	h.at(uuid)
}

// listed adds a process named by the library. Its number may belong to another PID namespace, and
// to a different process here. Unless this machine shows the process at the GPUs as well, the
// holder is unknown.
func (s *Scrub) listed(byPID map[int]*holder, vendor string, pid int, uuid string) {
	h := byPID[pid]
	if h == nil {
		if p, err := s.Machine.Process(pid); err == nil && s.computes(vendor, pid) {
			h = s.holder(p, "library")
		} else {
			h = &holder{
				process: machine.Process{PID: pid}, gpus: map[string]bool{},
				out: taskcatalog.GPUHolder{PID: pid, Via: "library", Outcome: "unseen"},
			}
		}
		byPID[pid] = h
	}
	h.listed = true
	if h.unsure != "" {
		h.unsure, h.gpus = "", map[string]bool{} // whoever it is, this GPU is held
		if s.computes(vendor, pid) {
			h.out.Outcome = "kept"
		}
	}
	h.at(uuid)
}

func (s *Scrub) holder(p machine.Process, via string) *holder {
	h := &holder{process: p, gpus: map[string]bool{}, own: s.own(p)}
	h.out = taskcatalog.GPUHolder{
		PID: p.PID, Via: via, Name: taskcatalog.Clean(p.Name, 64), Outcome: "kept",
		Namespace: s.Machine.ForeignPIDs(p.PID),
	}
	if len(p.UIDs) > 0 {
		h.out.UID = p.UIDs[0]
	}
	return h
}

// own reports whether a process is process 1, this process, or one of this process's helpers.
func (s *Scrub) own(p machine.Process) bool {
	if p.PID == 1 || p.PID == os.Getpid() {
		return true
	}
	its, err1 := s.Machine.Exe(p.PID)
	helper := s.Helper.Path
	if target, err := os.Readlink(helper); err == nil {
		helper = target
	}
	return p.PPID == os.Getpid() && err1 == nil && its == helper
}

// computes reports whether a process maps one of the vendor's compute libraries.
func (s *Scrub) computes(vendor string, pid int) bool {
	maps, err := s.Machine.ReadFile(path.Join("/proc", strconv.Itoa(pid), "maps"), 16<<20)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line)
		computes := func(name string) bool { return strings.HasPrefix(path.Base(f[5]), name) }
		if len(f) >= 6 && slices.ContainsFunc(computing[vendor], computes) {
			return true
		}
	}
	return false
}

// manager is a service that holds GPUs without computing on them, and stays up.
type manager struct{ unit, program string }

// managers are started from the files of their packages.
var managers = []manager{{"nvidia-fabricmanager.service", "/usr/bin/nv-fabricmanager"}}

// exempt reports whether a holder is the main process of such a service: according to systemd and
// by the program's file. A process with root may move into any cgroup, and may show the path in its
// own mount namespace.
func (s *Scrub) exempt(ctx context.Context, h *holder) (bool, error) {
	if h.listed || h.process.Start == 0 {
		return false, nil
	}
	program, err := s.Machine.Exe(h.process.PID)
	if err != nil {
		return false, nil // the process has ended
	}
	for _, m := range managers {
		if program != m.program {
			continue
		}
		if its, err := s.Machine.Runs(h.process.PID, m.program); err != nil || !its {
			return false, nil // the process has ended, or the path is from its own mount namespace
		}
		pid, err := s.Systemd.MainPID(ctx, m.unit)
		if err != nil {
			return false, err
		}
		return pid == h.process.PID, nil
	}
	return false, nil
}
