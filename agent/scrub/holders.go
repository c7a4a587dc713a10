package scrub

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// exemptUnits are services that hold GPUs and stay up.
var exemptUnits = []string{"/system.slice/nvidia-fabricmanager.service"}

// holder is a process at one or more GPUs.
type holder struct {
	process machine.Process
	gpus    map[string]bool // uuids; nil: any of the vendor's
	exempt  bool
	out     taskcatalog.GPUHolder
}

func (h *holder) holds(u *unit) bool { return h.gpus == nil || h.gpus[u.facts.UUID] }

func (h *holder) same(o *holder) bool {
	return h.process.PID == o.process.PID && h.process.Start == o.process.Start
}

// holders finds who is at the units' GPUs: by the device files that are open, in
// every PID namespace below ours, and by the library's own lists.
func (s *Scrub) holders(ctx context.Context, units []*unit) ([]*holder, error) {
	byPID := map[int]*holder{}
	add := func(pid int, uuid, via string) {
		h := byPID[pid]
		if h == nil {
			p, err := s.Machine.Process(pid)
			if err != nil {
				if via == "open_device" {
					return // it has ended
				}
				p = machine.Process{PID: pid} // the library's word alone
			}
			h = &holder{process: p, gpus: map[string]bool{}, out: taskcatalog.GPUHolder{PID: pid, Via: via, Name: taskcatalog.Clean(p.Name, 64), Outcome: "kept"}}
			if p.Start == 0 {
				h.out.Outcome = "unseen"
			} else if len(p.UIDs) > 0 {
				h.out.UID = p.UIDs[0]
			}
			h.out.Namespace = s.Machine.ForeignPIDs(pid)
			if cgroup, err := s.Machine.Cgroup(pid); err == nil && slices.Contains(exemptUnits, cgroup) {
				h.exempt = true
			}
			byPID[pid] = h
		}
		if uuid == "" {
			h.gpus = nil
		} else if h.gpus != nil {
			h.gpus[uuid] = true
		}
	}
	vendor, owner := units[0].device.Vendor, map[string]string{}
	for d, of := range gpus(units) {
		for _, name := range of[0].before.Nodes {
			owner[name] = d.UUID
		}
	}
	for d, listed := range askEach(gpus(units), func(d gpu.Device) answer[[]gpu.Holder] { return answerOf(s.Helper.Holders(ctx, d)) }) {
		if listed.err != nil {
			for _, u := range gpus(units)[d] {
				u.failed("cannot list the processes on the GPU", listed.err)
			}
		}
		for _, l := range listed.value {
			add(int(l.PID), d.UUID, "library")
		}
	}
	opened, err := s.Openers(s.Machine)
	if err != nil {
		return nil, fmt.Errorf("cannot find who has a GPU open: %w", err)
	}
	for _, o := range opened {
		// Whoever has a GPU's own file open, or is listed, is known by that; the
		// others may be at any GPU of the vendor.
		for _, name := range o.Nodes {
			if uuid := owner[name]; uuid != "" {
				add(o.PID, uuid, "open_device")
			}
		}
		if byPID[o.PID] == nil && o.Anywhere(vendor) {
			add(o.PID, "", "open_device")
		}
		// Nobody is ended on a suspicion, and nothing is clean beside one.
		if byPID[o.PID] == nil && o.Unseen != "" {
			return nil, fmt.Errorf("cannot tell whether process %d (%s) has a GPU open: %s", o.PID, taskcatalog.Clean(o.Name, 64), o.Unseen)
		}
	}
	all := make([]*holder, 0, len(byPID))
	for _, h := range byPID {
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b *holder) int { return a.process.PID - b.process.PID })
	return all, nil
}

const (
	defaultGrace = 10 * time.Second
	killTime     = 10 * time.Second
)

// end asks the holders to go, and then makes them.
func (s *Scrub) end(ctx context.Context, holders []*holder) error {
	var left []*holder
	for _, h := range holders {
		if !h.exempt && !h.process.Kernel && h.out.Outcome != "unseen" {
			left = append(left, h)
		}
	}
	grace := time.Duration(s.policy.HolderGraceSeconds) * time.Second
	if grace == 0 {
		grace = defaultGrace
	}
	for _, way := range []struct {
		signal  unix.Signal
		outcome string
		limit   time.Duration
	}{{unix.SIGTERM, "terminated", grace}, {unix.SIGKILL, "killed", killTime}} {
		for _, h := range left {
			if err := s.Machine.Signal(h.process, way.signal); err != nil {
				return err
			}
		}
		for begun := s.Now(); len(left) > 0; {
			left = slices.DeleteFunc(left, func(h *holder) bool {
				now, alive := s.Machine.Alive(h.process)
				if h.out.State = now.State; !alive {
					h.out.Outcome, h.out.State = way.outcome, ""
				}
				return !alive
			})
			if len(left) == 0 || s.Now().Sub(begun) >= way.limit {
				break
			}
			if err := s.pause(ctx); err != nil {
				return err
			}
		}
	}
	for _, h := range left {
		h.out.Outcome = "stuck"
	}
	return nil
}
