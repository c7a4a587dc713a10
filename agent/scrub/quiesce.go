package scrub

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/agent/gpu"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// daemons are the vendors' own services that hold GPUs and may be stopped for a while. IMEX, which
// shares GPU memory between nodes, is included, because no tenant is on the node meanwhile. The
// fabric manager, and the subnet manager it starts for NVLink 5, are not included: GPUs behind
// NVSwitches need them.
var daemons = map[string][]string{
	"nvidia": {
		"nvidia-persistenced.service", "nvidia-dcgm.service", "dcgm.service", "nvidia-dcgm-exporter.service", "dcgm-exporter.service",
		"nvidia-imex.service",
	},
	"amd": {"amd-metrics-exporter.service", "amd-smi-exporter.service", "gpuagent.service"},
}

// quiesce stops the daemons that may be stopped, and then ends the remaining holders. A unit that
// is still held is left alone from then on.
func (s *Scrub) quiesce(ctx context.Context) error {
	return s.each(ctx, profiles.StepQuiesce, s.live(), s.releaseGPUs,
		func(units []*unit, err error) {
			for _, u := range units {
				if err != nil {
					u.fail(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHolderPresent, "cannot quiesce the GPU: %v", err)
				}
			}
		},
		func(units []*unit) {
			for _, u := range units {
				u.fail(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHolderPresent,
					"the profiles have no quiesce for this GPU: the agent did not check which processes hold it")
			}
		})
}

func (s *Scrub) releaseGPUs(ctx context.Context, units []*unit) error {
	if err := s.stop(ctx, slices.Concat(daemons[units[0].device.Vendor], s.policy.StopServices)); err != nil {
		return err
	}
	holders, err := s.holders(ctx, units)
	if err != nil {
		return err
	}
	if !s.policy.KeepHolders {
		if err := s.end(ctx, holders); err != nil {
			return err
		}
	}
	// A daemon may restart an ended process, so the GPU must stay without a holder for several
	// looks. If there was no holder at first, the first look counts.
	held := len(holders) > 0
	free, verdict := map[*unit]int{}, map[*unit]taskcatalog.Verdict{}
	for i := range samples {
		again := holders
		if i > 0 || held {
			if err := s.pause(ctx); err != nil {
				return err
			}
			if again, err = s.holders(ctx, units); err != nil {
				return err
			}
		}
		for _, u := range units {
			at := slices.DeleteFunc(slices.Clone(again), func(h *holder) bool { return !h.holds(u) || h.exempt })
			if len(at) == 0 {
				free[u]++
			} else if slices.ContainsFunc(at, func(h *holder) bool { return h.unsure == "" }) {
				verdict[u] = taskcatalog.VerdictNotClean
			}
		}
		for _, h := range again {
			if !slices.ContainsFunc(holders, h.same) {
				holders = append(holders, h) // arrived while the other holders were ended
			}
		}
	}
	for _, u := range units {
		for _, h := range holders {
			if h.holds(u) {
				u.out.Holders = append(u.out.Holders, h.out)
			}
		}
		if free[u] < samples {
			u.fail(cmp.Or(verdict[u], taskcatalog.VerdictInconclusive), taskcatalog.CodeGPUHolderPresent, "%s", describeHolders(u))
		}
	}
	return nil
}

// samples is how many looks, an interval apart, must find no holder.
const samples = 3

func describeHolders(u *unit) string {
	for _, h := range u.out.Holders {
		switch h.Outcome {
		case "terminated", "killed":
		case "stuck":
			return fmt.Sprintf("process %d (%s) outlived SIGKILL in state %s and holds the GPU (reboot the node)", h.PID, h.Name, h.State)
		case "unseen":
			if h.Via != "library" {
				return fmt.Sprintf("cannot tell whether process %d (%s, uid %d) holds the GPU: some of its open files cannot be inspected",
					h.PID, h.Name, h.UID)
			}
			return fmt.Sprintf("the vendor library lists process %d on the GPU, and the agent does not see the process there (the process is in another PID namespace, or the library is wrong)", h.PID)
		default:
			return fmt.Sprintf("process %d (%s, uid %d) holds the GPU", h.PID, h.Name, h.UID)
		}
	}
	return "new processes keep opening the GPU"
}

// verifyFree looks for holders again, at all units of a vendor that are still worth work. A process
// that took a GPU meanwhile has memory that nobody checked, so its unit fails and gets no more
// work.
func (s *Scrub) verifyFree(ctx context.Context, units []*unit, when string) {
	units = slices.DeleteFunc(slices.Clone(units), func(u *unit) bool { return u.done })
	if len(units) == 0 {
		return
	}
	holders, err := s.holders(ctx, units)
	for _, u := range units {
		if err != nil {
			u.fail(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHolderPresent, "cannot tell which processes hold the GPU %s: %v",
				when, err)
			continue
		}
		for _, h := range holders {
			if h.holds(u) && !h.exempt {
				u.out.Holders = append(u.out.Holders, h.out)
				if h.unsure != "" {
					u.fail(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHolderPresent,
						"cannot tell whether process %d holds the GPU %s: %s", h.out.PID, when, h.unsure)
					continue
				}
				u.fail(taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHolderPresent,
					"process %d (%s, uid %d) opened the GPU and was found %s", h.out.PID, h.out.Name, h.out.UID, when)
			}
		}
	}
}

// verifyAllFree is verifyFree for the units of every vendor.
func (s *Scrub) verifyAllFree(ctx context.Context, when string) {
	for _, vendor := range s.Vendors {
		s.verifyFree(ctx, slices.DeleteFunc(s.live(), func(u *unit) bool { return u.device.Vendor != vendor }), when)
	}
}

// stop stops the running units among names. All are in the ledger before the first is stopped,
// because stopping a unit may stop others with it. A unit that may be the tenant's is recorded as
// unnamed.
func (s *Scrub) stop(ctx context.Context, names []string) error {
	var running []string
	for _, name := range names {
		active, err := s.Systemd.Active(ctx, name)
		if err != nil {
			return err
		}
		if active && !slices.Contains(running, name) {
			running = append(running, name)
		}
	}
	for _, name := range running {
		put := s.Stopped.PutUnnamed
		if known, err := s.known(ctx, name); err != nil {
			return err
		} else if known {
			put = s.Stopped.PutStopped
		}
		if err := put(name); err != nil {
			return err
		}
	}
	for _, name := range running {
		if err := s.Systemd.Stop(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// known reports whether a unit is started again after it was stopped. A tenant with root may give a
// unit of its own a daemon's name, or add files to the daemon's unit. A unit is known if it
// consists of a package's files alone, or if the site names it. A transient unit does not count,
// because it vanishes when stopped.
func (s *Scrub) known(ctx context.Context, name string) (bool, error) {
	file, additions, err := s.Systemd.Files(ctx, name)
	if err != nil {
		return false, err
	}
	if slices.Contains(s.policy.StopServices, name) {
		return file != "" && !strings.HasPrefix(file, "/run/systemd/transient/"), nil
	}
	return !slices.ContainsFunc(append(additions, file), func(f string) bool {
		return !strings.HasPrefix(f, "/usr/lib/systemd/system/") && !strings.HasPrefix(f, "/lib/systemd/system/")
	}), nil
}

// putBack starts the units stopped by this scrub, or by a scrub that a crash ended. It runs even if
// the task was canceled.
func (s *Scrub) putBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackTime)
	defer cancel()
	s.stopped = append(s.unnamed(), PutBack(ctx, s.Stopped, s.Systemd, s.Helper)...)
}

const putBackTime = 2 * time.Minute

// Starter starts a unit of systemd and waits.
type Starter interface {
	Start(ctx context.Context, unit string) error
}

// PutBack starts every unit in the ledger of stopped units, and then switches persistence mode on
// again for the GPUs in the ledger. Failures stay in the ledger for the next time.
func PutBack(ctx context.Context, stopped Stopped, systemd Starter, helper *gpu.Helper) []taskcatalog.GPUInterrupted {
	names, err := stopped.StoppedUnits()
	if err != nil {
		return []taskcatalog.GPUInterrupted{{Message: taskcatalog.Clean("cannot read which services were stopped: "+err.Error(),
			taskcatalog.MaxText)}}
	}
	var all []taskcatalog.GPUInterrupted
	for _, name := range names {
		i := taskcatalog.GPUInterrupted{Unit: name}
		err := systemd.Start(ctx, name)
		if err == nil {
			err = stopped.DeleteStopped(name)
		}
		if i.PutBack = err == nil; err != nil {
			i.Message = taskcatalog.Clean(err.Error(), taskcatalog.MaxText)
		}
		all = append(all, i)
	}
	return append(all, persistAgain(ctx, stopped, helper)...)
}

// pause waits for an interval.
func (s *Scrub) pause(ctx context.Context) error {
	timer := time.NewTimer(s.Interval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
