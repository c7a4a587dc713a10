package scrub

import (
	"context"
	"errors"
	"strings"

	"github.com/hostler/hostler/agent/gpu"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// health compares the GPUs' state with their state before the scrub, and reads the driver's and the
// kernel's messages.
func (s *Scrub) health(ctx context.Context) error {
	lines, logErr := []string(nil), errors.New("it was not opened")
	if s.KernelLog != nil {
		lines, logErr = s.KernelLog()
	}
	return s.each(ctx, profiles.StepHealth, s.units,
		func(ctx context.Context, units []*unit) error {
			s.verifyFree(ctx, units, "after the scrub")
			after := s.states(ctx, units)
			for _, u := range units {
				s.judgeClearing(u)
				if logErr != nil {
					u.worse(taskcatalog.VerdictInconclusive, "kernel_log_unreadable", "cannot read the kernel's log: %v", logErr)
				}
				judgeLog(u, lines)
				if state := after[u.whole()]; state != nil {
					health := state.Health
					u.out.After = &health
					judgeHealth(u)
					judgeSettings(u, *state)
				} else {
					u.worse(taskcatalog.VerdictInconclusive, gpu.CodeDriverFailed, "cannot read the GPU's state at the end")
				}
			}
			return context.Cause(ctx)
		},
		func(units []*unit, err error) {
			for _, u := range units {
				if err != nil {
					u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHardwareFault, "cannot judge the GPU's health: %v", err)
				}
			}
		},
		func(units []*unit) {
			for _, u := range units {
				u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHardwareFault, "the profiles have no health for this GPU")
			}
		})
}

// judgeClearing checks that the driver clears freed memory.
func (s *Scrub) judgeClearing(u *unit) {
	switch why, err := s.Clearing(s.Machine, u.device.Vendor); {
	case err != nil:
		u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeDriverScrubDisabled,
			"cannot tell whether the driver clears what is freed: %v", err)
	case why != "":
		u.worse(taskcatalog.VerdictNotClean, taskcatalog.CodeDriverScrubDisabled, "%s", why)
	}
}

// judgeSettings compares the settings in force at the end, and the settings after the next reset,
// with the baseline, whoever restored them.
func judgeSettings(u *unit, is gpu.State) {
	if u.want == nil {
		return
	}
	left := u.want.Settings.Differences(is.Settings)
	if len(left) == 0 {
		left = u.want.Settings.Differences(is.Pending)
	}
	if len(left) > 0 {
		u.worse(taskcatalog.VerdictNotClean, taskcatalog.CodeGPUSettingUnrestored, "%s", deviations(left))
	}
	if unknown := Unreadable(u.want.Settings, is.Settings); len(unknown) > 0 {
		u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUSettingUnrestored,
			"cannot read the settings %s, which are in the baseline", strings.Join(unknown, ", "))
	}
}

func judgeHealth(u *unit) {
	fault := func(format string, args ...any) {
		u.worse(taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHardwareFault, format, args...)
	}
	unsure := func(format string, args ...any) {
		u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHardwareFault, format, args...)
	}
	is := *u.out.After
	if isTrue(is.RemapFailed) {
		fault("rows of its memory could not be remapped (replace the GPU)")
	}
	if isTrue(is.RemapPending) {
		unsure("rows of its memory wait to be remapped at the next reset")
	}
	for _, c := range counters {
		if !c.grew(u) {
			continue
		}
		if c.fault {
			fault("%s during the scrub", c.message)
		} else {
			unsure("%s during the scrub", c.message)
		}
	}
	if gone := missingFigures(u.readings); len(gone) > 0 {
		unsure("values that could be read before the scrub cannot be read now: %s", strings.Join(gone, ", "))
	}
	if is.Recovery != "" && is.Recovery != "none" {
		unsure("its vendor library advises: %s", is.Recovery)
	}
	if !ready(u.before.Health.Fabric, is.Fabric) {
		u.worse(taskcatalog.VerdictInconclusive, gpu.CodeFabricNotReady, "its fabric is %q, and was %q", is.Fabric, u.before.Health.Fabric)
	}
}

func isTrue(b *bool) bool { return b != nil && *b }
