package scrub

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/hostler/hostler/agent/gpu"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// restore restores the baseline's settings. Settings that do not take are reported by name.
func (s *Scrub) restore(ctx context.Context) error {
	return s.each(ctx, profiles.StepRestore, s.live(),
		func(ctx context.Context, units []*unit) error {
			all := gpus(units)
			for d, left := range queryEach(all, func(d gpu.Device) answer[[]taskcatalog.GPUDeviation] {
				if all[d][0].want == nil {
					return answer[[]taskcatalog.GPUDeviation]{}
				}
				return answerOf(s.apply(ctx, d, all[d][0]))
			}) {
				for _, u := range all[d] {
					if left.err != nil {
						u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUSettingUnrestored,
							"cannot restore the GPU's settings: %v", left.err)
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
					u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUSettingUnrestored, "cannot restore the GPU's settings: %v",
						err)
				}
			}
		},
		func(units []*unit) {
			for _, u := range units {
				u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUSettingUnrestored,
					"the profiles have no restore for this GPU: the agent did not check its settings")
			}
		})
}

// apply restores the settings of a GPU. A different MIG mode is left to the reset step: the change
// destroys the instances, may reset the GPU, and leaves memory that nobody checked.
func (s *Scrub) apply(ctx context.Context, d gpu.Device, u *unit) ([]taskcatalog.GPUDeviation, error) {
	want, have := u.want.Settings, u.facts.Partition
	if mode := want.Partition; d.Vendor == "nvidia" && mode != "" && have != "" && mode != have {
		want.Partition = ""
		left, err := s.Helper.Apply(ctx, d, want)
		return append(left, taskcatalog.GPUDeviation{Setting: "partition", Want: mode, Have: have, NeedsReset: true}), err
	}
	return s.Helper.Apply(ctx, d, want)
}

func deviations(left []taskcatalog.GPUDeviation) string {
	var all []string
	for _, d := range left {
		text := fmt.Sprintf("%s is %s and was %s", d.Setting, cmp.Or(d.Have, "unknown"), d.Want)
		if d.NeedsReset {
			text += " (a reset of the GPU is needed)"
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}
