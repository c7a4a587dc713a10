package scrub

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/gpu"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// judgeClearing looks whether the driver clears what is freed.
func (s *Scrub) judgeClearing(u *unit) {
	switch why, err := s.Clearing(s.Machine, u.device.Vendor); {
	case err != nil:
		u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeDriverScrubDisabled, "cannot tell whether the driver clears what is freed: %v", err)
	case why != "":
		u.worse(taskcatalog.VerdictNotClean, taskcatalog.CodeDriverScrubDisabled, "%s", why)
	}
}

// restore puts the settings back that the baseline has. What will not go back is
// told by name.
func (s *Scrub) restore(ctx context.Context) error {
	return s.each(ctx, profiles.StepRestore, s.live(),
		func(ctx context.Context, units []*unit) error {
			all := gpus(units)
			for d, left := range askEach(all, func(d gpu.Device) answer[[]taskcatalog.GPUDeviation] {
				if all[d][0].want == nil {
					return answer[[]taskcatalog.GPUDeviation]{}
				}
				return answerOf(s.Helper.Apply(ctx, d, all[d][0].want.Settings))
			}) {
				for _, u := range all[d] {
					if left.err != nil {
						u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUSettingUnrestored, "cannot put the GPU's settings back: %v", left.err)
						continue
					}
					u.out.Deviations = left.value
					if len(left.value) > 0 {
						u.worse(taskcatalog.VerdictNotClean, taskcatalog.CodeGPUSettingUnrestored, "%s", deviations(left.value))
					}
				}
			}
			return context.Cause(ctx)
		},
		func(units []*unit, err error) {
			for _, u := range units {
				if err != nil {
					u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUSettingUnrestored, "cannot put the GPU's settings back: %v", err)
				}
			}
		},
		func(units []*unit) {
			for _, u := range units {
				u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUSettingUnrestored, "the profiles have no restore for this GPU: nobody looked at its settings")
			}
		})
}

func deviations(left []taskcatalog.GPUDeviation) string {
	var all []string
	for _, d := range left {
		text := fmt.Sprintf("%s is %s and was %s", d.Setting, d.Have, d.Want)
		if d.NeedsReset {
			text += " (it needs a reset)"
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// health compares how the GPUs are with how they were, and reads what the driver
// and the kernel say.
func (s *Scrub) health(ctx context.Context) error {
	lines, logErr := s.KernelLog()
	return s.each(ctx, profiles.StepHealth, s.units,
		func(ctx context.Context, units []*unit) error {
			s.stillFree(ctx, units)
			after := s.states(ctx, units)
			for _, u := range units {
				s.judgeClearing(u)
				if logErr != nil {
					u.worse(taskcatalog.VerdictInconclusive, "kernel_log_unreadable", "cannot read the kernel's log: %v", logErr)
				}
				s.judgeLog(u, lines)
				if state := after[u.whole()]; state != nil {
					health := state.Health
					u.out.After = &health
					judgeHealth(u)
				} else if !u.done {
					u.fail(taskcatalog.VerdictInconclusive, gpu.CodeDriverFailed, "cannot read the GPU's state at the end")
				}
			}
			return context.Cause(ctx)
		},
		func(units []*unit, err error) {
			for _, u := range units {
				if err != nil {
					u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHardwareFault, "the GPU's health could not be told: %v", err)
				}
			}
		},
		func(units []*unit) {
			for _, u := range units {
				u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHardwareFault, "the profiles have no health for this GPU: nobody looked at it")
			}
		})
}

func judgeHealth(u *unit) {
	fault := func(format string, args ...any) {
		u.worse(taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHardwareFault, format, args...)
	}
	unsure := func(format string, args ...any) {
		u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHardwareFault, format, args...)
	}
	was, is := u.before.Health, *u.out.After
	if yes(is.RemapFailed) {
		fault("rows of its memory could not be remapped (replace the GPU)")
	}
	if yes(is.RemapPending) {
		unsure("rows of its memory wait to be remapped at the next reset")
	}
	if grew(was.ECCTotal, is.ECCTotal) || was.ECCTotal == nil && grew(was.ECCUncorrected, is.ECCUncorrected) {
		fault("it met uncorrectable memory errors during the scrub")
	}
	if grew(was.BadPages, is.BadPages) {
		fault("it retired pages of its memory during the scrub")
	}
	if grew(was.LinkErrors, is.LinkErrors) {
		unsure("its links met errors during the scrub")
	}
	if is.Recovery != "" && is.Recovery != "none" {
		unsure("its library advises: %s", is.Recovery)
	}
	if !ready(is.Fabric) {
		u.worse(taskcatalog.VerdictInconclusive, gpu.CodeFabricNotReady, "its fabric is %s", is.Fabric)
	}
}

func yes(b *bool) bool { return b != nil && *b }

// grew reports whether a counter did. One that starts anew with a reset and is
// not zero then has grown, too.
func grew(was, is *uint64) bool {
	return is != nil && was != nil && *is > *was
}

var (
	xidLine = regexp.MustCompile(`NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): ([0-9]+)`)
	rasLine = regexp.MustCompile(`amdgpu ([0-9a-f:.]+): .*(uncorrectable hardware errors|GPU reset.*failed|ring .* timeout)`)
)

// blocking are the Xids after which a GPU is not handed on: of its memory, its
// links and its firmware. The others are an application's.
var blocking = []string{"48", "63", "64", "74", "79", "92", "94", "95", "119", "120", "140", "154"}

// judgeLog looks for what the kernel said of this GPU since the scrub began.
func (s *Scrub) judgeLog(u *unit, lines []string) {
	for _, line := range lines {
		if strings.Contains(line, "_scrubWaitAndSave: Timed out") && u.device.Vendor == "nvidia" {
			u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHardwareFault, "the driver gave up clearing freed memory")
		}
		if m := xidLine.FindStringSubmatch(line); m != nil && sameFunction(m[1], u.facts.PCIAddress) && slices.Contains(blocking, m[2]) {
			u.worse(taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHardwareFault, "the kernel logged Xid %s", m[2])
		}
		if m := rasLine.FindStringSubmatch(line); m != nil && sameFunction(m[1], u.facts.PCIAddress) {
			u.worse(taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHardwareFault, "the kernel logged: %s", taskcatalog.Clean(m[2], 100))
		}
	}
}

// sameFunction compares PCI addresses; the driver leaves the function out.
func sameFunction(logged, address string) bool {
	logged, address = strings.ToLower(logged), strings.ToLower(address)
	return logged == address || strings.HasPrefix(address, logged+".")
}
