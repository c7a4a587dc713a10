package scrub

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/agent/facts"
	"github.com/hostler/hostler/agent/resolver"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// resolved resolves a step for a GPU.
func (s *Scrub) resolved(step, vendor, architecture string) (resolver.Resolved, error) {
	keys := map[string]string{}
	maps.Copy(keys, s.Facts.Keys)
	if keys["gpu.vendor"] != vendor {
		// The node's gpu.* keys describe another vendor's GPUs.
		maps.DeleteFunc(keys, func(k, _ string) bool { return strings.HasPrefix(k, "gpu.") })
		maps.Copy(keys, facts.GPUKeys(s.Facts, vendor))
	}
	if architecture != "" {
		keys["gpu.architecture"] = architecture
	}
	return resolver.Resolve(s.Profiles, keys, step)
}

// resolve resolves a step for the GPUs of a vendor. A failure is recorded.
func (s *Scrub) resolve(step string, units []*unit) (resolver.Resolved, error) {
	r, err := s.resolved(step, units[0].device.Vendor, units[0].facts.Architecture)
	if err != nil {
		s.records = append(s.records, r.Record(1, taskcatalog.StepFailed, taskcatalog.CodeOf(err, ""), 0))
	}
	return r, err
}

// alwaysBuiltin are the steps of which the agent always does its own part: a command of the
// profiles runs in addition. Without the agent's own look nothing is proven.
var alwaysBuiltin = []string{profiles.StepQuiesce, profiles.StepVerify, profiles.StepProbe, profiles.StepHealth}

// each carries a step out for the units of each vendor. builtin is the agent's own code for the
// step. A command profile runs with the GPUs' uuids. skipped is called with the units for which
// there is nothing to do.
func (s *Scrub) each(
	ctx context.Context, step string, units []*unit, builtin func(context.Context, []*unit) error, ran func([]*unit, error),
	skipped func([]*unit),
) error {
	for _, vendor := range s.Vendors {
		mine := slices.DeleteFunc(slices.Clone(units), func(u *unit) bool { return u.device.Vendor != vendor })
		if len(mine) == 0 {
			continue
		}
		r, err := s.resolve(step, mine)
		if err != nil {
			return err
		}
		begun := s.Now()
		switch {
		case r.Nothing():
			skipped(mine)
			s.record(r, taskcatalog.StepSkipped, "", begun)
			if step == profiles.StepHealth {
				if err := builtin(ctx, mine); err != nil {
					return err
				}
			}
		case r.Builtin != "":
			err := builtin(ctx, mine)
			status, code := taskcatalog.StepSucceeded, taskcatalog.Code("")
			if err != nil {
				status, code = taskcatalog.StepFailed, taskcatalog.CodeOf(err, "")
			}
			for _, u := range mine {
				if status == taskcatalog.StepSucceeded && u.done {
					status, code = taskcatalog.StepFailed, u.out.Code
				}
			}
			if context.Cause(ctx) != nil {
				status = taskcatalog.StepCanceled
			}
			s.record(r, status, code, begun)
			if err != nil {
				return err
			}
		default:
			_, records, err := s.Commands.Step(ctx, r, map[string]any{profiles.InputGPUs: uuids(mine)})
			s.records = append(s.records, records...)
			if ctxErr := context.Cause(ctx); ctxErr != nil {
				return ctxErr
			}
			ran(mine, err)
			if step != profiles.StepHealth {
				mine = slices.DeleteFunc(mine, func(u *unit) bool { return u.done })
			}
			if slices.Contains(alwaysBuiltin, step) && len(mine) > 0 {
				if err := builtin(ctx, mine); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// record numbers repeated attempts of a step.
func (s *Scrub) record(r resolver.Resolved, status taskcatalog.StepStatus, code taskcatalog.Code, begun time.Time) {
	now := r.Record(1, status, code, s.Now().Sub(begun))
	for _, was := range s.records {
		if was.StepKind == now.StepKind && was.ResolvedProfile == now.ResolvedProfile {
			now.AttemptNumber++
		}
	}
	s.records = append(s.records, now)
}

// uuids returns the uuids of the units' GPUs, without duplicates.
func uuids(units []*unit) []string {
	var all []string
	for _, u := range units {
		if !slices.Contains(all, u.facts.UUID) {
			all = append(all, u.facts.UUID)
		}
	}
	return all
}
