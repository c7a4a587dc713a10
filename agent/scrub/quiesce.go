package scrub

import (
	"context"
	"fmt"
	"slices"
	"time"

	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// daemons are the vendors' own that hold GPUs and may be stopped for a while. The
// fabric manager is not among them: GPUs behind NVSwitches need it.
var daemons = map[string][]string{
	"nvidia": {
		"nvidia-persistenced.service", "nvidia-dcgm.service", "dcgm.service", "nvidia-dcgm-exporter.service", "dcgm-exporter.service",
	},
	"amd": {"amd-metrics-exporter.service", "amd-smi-exporter.service", "gpuagent.service"},
}

// quiesce stops the daemons that may be stopped, and then whoever still holds a
// GPU. A unit that is held all the same is not touched any further.
func (s *Scrub) quiesce(ctx context.Context) error {
	return s.each(ctx, profiles.StepQuiesce, s.live(), s.letGo,
		func(units []*unit, err error) {
			if err != nil {
				for _, u := range units {
					u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHolderPresent, "cannot quiesce the GPU: %v", err)
				}
				return
			}
			if err := s.letGo(ctx, units); err != nil {
				for _, u := range units {
					u.fail(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHolderPresent, "cannot see who holds the GPU: %v", err)
				}
			}
		},
		func(units []*unit) {
			for _, u := range units {
				u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHolderPresent, "the profiles have no quiesce for this GPU: nobody looked who holds it")
			}
		})
}

func (s *Scrub) letGo(ctx context.Context, units []*unit) error {
	if err := s.stopDaemons(ctx, units[0].device.Vendor); err != nil {
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
	// A daemon may start again what was ended: nobody may hold the GPU for a while.
	// Where nobody did, the first look is one of those that count.
	held := len(holders) > 0
	free := map[*unit]int{}
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
			if !slices.ContainsFunc(again, func(h *holder) bool { return h.holds(u) && !h.exempt }) {
				free[u]++
			}
		}
		for _, h := range again {
			if !slices.ContainsFunc(holders, h.same) {
				holders = append(holders, h) // it came while the others were ended
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
			u.fail(taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHolderPresent, "%s", s.whoHolds(u))
		}
	}
	return nil
}

// samples is how often, an interval apart, nobody may be seen to hold a GPU.
const samples = 3

func (s *Scrub) whoHolds(u *unit) string {
	for _, h := range u.out.Holders {
		switch h.Outcome {
		case "terminated", "killed":
		case "stuck":
			return fmt.Sprintf("process %d (%s) outlived SIGKILL in state %s and holds the GPU (reboot the node)", h.PID, h.Name, h.State)
		case "unseen":
			return fmt.Sprintf("the library lists process %d on the GPU, which this machine does not show (it is in a PID namespace beside the agent's, or the library is wrong)", h.PID)
		default:
			return fmt.Sprintf("process %d (%s, uid %d) holds the GPU", h.PID, h.Name, h.UID)
		}
	}
	return "somebody holds the GPU again and again"
}

// stillFree looks once more: whoever took a GPU while it was scrubbed has memory
// that nobody looked at.
func (s *Scrub) stillFree(ctx context.Context, units []*unit) {
	units = slices.DeleteFunc(slices.Clone(units), func(u *unit) bool { return u.done })
	if len(units) == 0 {
		return
	}
	holders, err := s.holders(ctx, units)
	for _, u := range units {
		if err != nil {
			u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHolderPresent, "cannot see who holds the GPU after the scrub: %v", err)
			continue
		}
		for _, h := range holders {
			if h.holds(u) && !h.exempt {
				u.out.Holders = append(u.out.Holders, h.out)
				u.worse(taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHolderPresent, "process %d (%s, uid %d) took the GPU while it was scrubbed", h.out.PID, h.out.Name, h.out.UID)
			}
		}
	}
}

func (s *Scrub) stopDaemons(ctx context.Context, vendor string) error {
	for _, name := range slices.Concat(daemons[vendor], s.policy.StopServices) {
		active, err := s.Systemd.Active(ctx, name)
		if err != nil {
			return err
		}
		if !active {
			continue
		}
		if err := s.Stopped.PutStopped(name); err != nil {
			return err
		}
		if err := s.Systemd.Stop(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// putBack starts again what was stopped, by this scrub or one that a crash ended.
// It goes on where the task was canceled.
func (s *Scrub) putBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackTime)
	defer cancel()
	s.stopped = PutBack(ctx, s.Stopped, s.Systemd)
}

const putBackTime = 2 * time.Minute

// PutBack starts every unit that the ledger says a scrub stopped. One that cannot
// be started stays in the ledger for the next time.
func PutBack(ctx context.Context, stopped Stopped, systemd Systemd) []taskcatalog.GPUInterrupted {
	names, err := stopped.StoppedUnits()
	if err != nil {
		return []taskcatalog.GPUInterrupted{{Message: taskcatalog.Clean("cannot read what was stopped: "+err.Error(), taskcatalog.MaxText)}}
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
	return all
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
