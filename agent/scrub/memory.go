package scrub

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hostler/hostler/agent/gpu"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// overwrite overwrites the memory of all units at once, each in its own process.
func (s *Scrub) overwrite(ctx context.Context) error {
	s.verifyAllFree(ctx, "before the overwrite")
	return s.overwriteThese(ctx, slices.DeleteFunc(s.live(), (*unit).inaccessible))
}

func (s *Scrub) overwriteThese(ctx context.Context, units []*unit) error {
	return s.each(ctx, profiles.StepOverwrite, units,
		func(ctx context.Context, units []*unit) error {
			told := s.follow(profiles.StepOverwrite, units)
			sideBySide(units, func(i int, u *unit) {
				r, err := s.Helper.Scrub(ctx, u.device, gpu.ScrubOptions{Nonce: s.Nonce}, func(p gpu.Progress) { told(i, p) })
				if err != nil {
					u.failed("cannot overwrite the memory", err)
					return
				}
				u.scrub = &r
				s.cleanLocal(ctx, u)
			})
			return context.Cause(ctx)
		},
		func(units []*unit, err error) {
			for _, u := range units {
				if err != nil {
					u.fail(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUScrubIncomplete, "cannot overwrite the memory: %v", err)
				} else {
					u.out.Assurance.Overwrite = taskcatalog.OverwriteUnverified
				}
			}
		},
		func(units []*unit) {
			for _, u := range units {
				u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUScrubIncomplete, "the profiles have no overwrite for this GPU")
			}
		})
}

// cleanLocal clears registers and local data shares, if the vendor has a call for it: both were
// seen to leak data between processes.
func (s *Scrub) cleanLocal(ctx context.Context, u *unit) {
	err := s.Helper.CleanLocal(ctx, u.device)
	code := taskcatalog.CodeOf(err, "")
	u.stuck = u.stuck || code == gpu.CodeHelperStuck
	switch {
	case err == nil:
		cleared := true
		u.out.LocalCleared = &cleared
	case code != gpu.CodeUnsupported && code != gpu.CodeResetUnsupported:
		u.worse(taskcatalog.VerdictInconclusive, code, "cannot clear registers and local memory: %v", err)
	}
}

// verify judges the figures of the overwrite. The pattern was compared while it was still in
// memory, so nothing more needs to run.
func (s *Scrub) verify(ctx context.Context) error {
	return s.verifyThese(ctx, slices.DeleteFunc(s.live(), (*unit).inaccessible))
}

func (s *Scrub) verifyThese(ctx context.Context, units []*unit) error {
	judge := func(_ context.Context, units []*unit) error {
		for _, u := range units {
			if u.scrub != nil {
				s.judgeOverwrite(u)
			}
		}
		return nil
	}
	return s.each(ctx, profiles.StepVerify, units, judge,
		func(units []*unit, err error) {
			for _, u := range units {
				if err != nil {
					u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUScrubIncomplete, "the overwrite could not be verified: %v",
						err)
				}
			}
		},
		func([]*unit) {})
}

// probe looks as the next tenant would: a new process that takes all free memory.
func (s *Scrub) probe(ctx context.Context) error {
	s.verifyAllFree(ctx, "before the probe")
	return s.each(ctx, profiles.StepProbe, s.live(),
		func(ctx context.Context, units []*unit) error {
			told := s.follow(profiles.StepProbe, units)
			sideBySide(units, func(i int, u *unit) {
				r, err := s.Helper.Probe(ctx, u.device, gpu.ProbeOptions{FreePercent: 100}, func(p gpu.Progress) { told(i, p) })
				if err != nil {
					u.failed("cannot read the memory as the next tenant would", err)
					return
				}
				u.probe = &r
				s.judgeProbe(u)
			})
			return context.Cause(ctx)
		},
		func(units []*unit, err error) {
			for _, u := range units {
				if err != nil {
					u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUScrubIncomplete,
						"the profile's own probe of the memory failed: %v", err)
				}
			}
		},
		func(units []*unit) {
			for _, u := range units {
				u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUScrubIncomplete, "the profiles have no probe for this GPU")
			}
		})
}

// sideBySide calls do for all units at once. do may change only its own unit. A panic fails its
// unit, not the agent.
func sideBySide(units []*unit, do func(int, *unit)) {
	var wg sync.WaitGroup
	for i, u := range units {
		wg.Go(func() {
			defer func() {
				if why := recover(); why != nil {
					u.fail(taskcatalog.VerdictInconclusive, taskcatalog.CodeHandlerPanicked, "the agent has a defect (report it): %v", why)
				}
			}()
			do(i, u)
		})
	}
	wg.Wait()
}

// follow sums the progress, in bytes, of units that work side by side.
func (s *Scrub) follow(step string, units []*unit) func(int, gpu.Progress) {
	var mu sync.Mutex
	// An overwrite has five passes over the memory, a probe has a single pass.
	passes := map[string]uint64{gpu.PhaseTake: 0, gpu.PhaseFill: 1, gpu.PhaseVerify: 2, gpu.PhaseZero: 3, gpu.PhaseCheck: 4}
	of := uint64(len(passes))
	if step == profiles.StepProbe {
		of = 1
	}
	done, total := make([]uint64, len(units)), make([]uint64, len(units))
	return func(i int, p gpu.Progress) {
		mu.Lock()
		defer mu.Unlock()
		done[i], total[i] = passes[p.Phase]*p.TotalBytes+p.DoneBytes, of*p.TotalBytes
		var d, t uint64
		started := uint64(0)
		for j := range done {
			d, t = d+done[j], t+total[j]
			if total[j] > 0 {
				started++
			}
		}
		t = t / max(1, started) * uint64(len(units)) // units without progress yet count as equally large
		percent := 0
		if t > 0 {
			percent = int(min(100, d*100/t))
		}
		s.reportProgress(step, percent, fmt.Sprintf("%d GPUs, %s %d MiB of %d MiB of %s", len(units), p.Phase, p.DoneBytes>>20,
			p.TotalBytes>>20, units[i].device.UUID))
	}
}
