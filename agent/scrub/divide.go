package scrub

import (
	"context"
	"slices"

	"github.com/hostler/hostler/agent/gpu"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

const migOn = "mig_enabled"

// changesPartition reports whether a GPU's MIG or partition mode differs from its baseline, and the
// reset of this scrub will change the mode back.
func (s *Scrub) changesPartition(g taskcatalog.GPUFacts, want *taskcatalog.BaselineGPU) bool {
	mode := want.Settings.Partition
	return mode != "" && g.Partition != "" && mode != g.Partition && s.Params.Reset != "never" && s.enforces(g)
}

// enforces reports whether a GPU can be reset here, and whether the agent restores its settings,
// not the site.
func (s *Scrub) enforces(g taskcatalog.GPUFacts) bool {
	reset, err1 := s.resolved(profiles.StepReset, g.Vendor, g.Architecture)
	restore, err2 := s.resolved(profiles.StepRestore, g.Vendor, g.Architecture)
	return err1 == nil && err2 == nil && !reset.Nothing() && !restore.Nothing() && restore.Builtin != ""
}

// inaccessible reports whether a unit is a GPU in MIG mode without an instance: its memory is
// inaccessible until the mode is off.
func (u *unit) inaccessible() bool {
	return u.divided && u.out.Parent == "" && u.facts.Partition == migOn
}

// beforeReset returns the settings that a reset may put in force. Persistence is left out: with it
// the driver holds the GPU, which blocks the reset. The restore step switches it on.
func beforeReset(want taskcatalog.GPUSettings) taskcatalog.GPUSettings {
	if want.Persistence != nil && *want.Persistence {
		want.Persistence = nil
	}
	return want
}

// setPending sets the settings that the coming reset puts in force, for GPUs whose present or
// pending settings differ from the baseline. Settings that do not take are detected and reported
// after the restore.
func (s *Scrub) setPending(ctx context.Context, going []*unit) error {
	for _, vendor := range s.Vendors {
		units := slices.DeleteFunc(slices.Clone(going), func(u *unit) bool {
			return u.device.Vendor != vendor || u.want == nil || !s.enforces(u.facts) ||
				len(beforeReset(u.want.Settings).Differences(u.before.Settings))+
					len(beforeReset(u.want.Settings).Differences(u.before.Pending)) == 0
		})
		if len(units) == 0 {
			continue
		}
		r, err := s.resolve(profiles.StepRestore, units)
		if err != nil {
			return err
		}
		begun, status, code := s.Now(), taskcatalog.StepSucceeded, taskcatalog.Code("")
		all := gpus(units)
		for _, err := range queryEach(all, func(d gpu.Device) error {
			_, err := s.Helper.Apply(ctx, d, beforeReset(all[d][0].want.Settings))
			return err
		}) {
			if err != nil {
				status, code = taskcatalog.StepFailed, taskcatalog.CodeOf(err, gpu.CodeDriverFailed)
			}
		}
		s.record(r, status, code, begun)
	}
	return context.Cause(ctx)
}

// again overwrites and verifies the whole of each GPU whose mode the reset has restored. A part of
// the memory may have been in no instance, and another part in the reserve of the old mode.
func (s *Scrub) again(ctx context.Context) error {
	var fresh []*unit
	for _, vendor := range s.Vendors {
		old := gpus(slices.DeleteFunc(s.live(), func(u *unit) bool { return u.device.Vendor != vendor || !u.divided }))
		if len(old) == 0 {
			continue
		}
		seen := s.Helper.Survey(ctx, vendor)
		states := queryEach(old, func(d gpu.Device) answer[gpu.State] { return answerOf(s.Helper.State(ctx, d)) })
		if err := context.Cause(ctx); err != nil {
			return err
		}
		for d, units := range old {
			i := slices.IndexFunc(seen.GPUs, func(g taskcatalog.GPUFacts) bool { return g.UUID == d.UUID })
			if i >= 0 && states[d].err == nil && hasBaselineMode(units[0].want, seen.GPUs[i]) {
				fresh = append(fresh, s.replaceUnits(units, seen.GPUs[i], states[d].value)...)
			} else {
				fresh = append(fresh, stillPartitioned(units)...)
			}
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	s.reportProgress(profiles.StepOverwrite, 0, "again, in the partitions that the GPUs had before")
	s.verifyAllFree(ctx, "before the second overwrite")
	fresh = slices.DeleteFunc(fresh, func(u *unit) bool { return u.done })
	if err := s.overwriteThese(ctx, fresh); err != nil {
		return err
	}
	return s.verifyThese(ctx, slices.DeleteFunc(fresh, func(u *unit) bool { return u.done }))
}

// hasBaselineMode reports whether a GPU is in its baseline's mode and its memory is accessible: a
// reset leaves no MIG instance.
func hasBaselineMode(want *taskcatalog.BaselineGPU, g taskcatalog.GPUFacts) bool {
	return g.Partition == want.Settings.Partition && (g.Partition != migOn || len(g.Instances) > 0)
}

// replaceUnits replaces a GPU's old units by its present units.
func (s *Scrub) replaceUnits(old []*unit, g taskcatalog.GPUFacts, now gpu.State) []*unit {
	fresh := s.unitsOf(g, old[0].want)
	for n, u := range fresh {
		u.inherit(old)
		u.before.Nodes, u.before.Domain = now.Nodes, now.Domain
		if n > 0 {
			u.residue = 0 // the residue was somewhere in the GPU, and is counted once
		}
	}
	at := slices.Index(s.units, old[0])
	s.units = slices.DeleteFunc(s.units, func(u *unit) bool { return slices.Contains(old, u) })
	s.units = slices.Insert(s.units, at, fresh...)
	return fresh
}

// stillPartitioned keeps the old units, and returns those whose memory is still inaccessible, so
// that their own overwrite reports the failure.
func stillPartitioned(units []*unit) []*unit {
	var blind []*unit
	for _, u := range units {
		if u.inaccessible() {
			blind = append(blind, u)
		}
		u.divided = false
		for _, text := range Changed(*u.want, u.facts) {
			u.worse(taskcatalog.VerdictNotClean, codeGPUChanged, "%s", text)
		}
	}
	return blind
}

// inherit takes over the state of a GPU from its former units: a fault of a unit is a fault of the
// GPU.
func (u *unit) inherit(old []*unit) {
	was := old[0]
	u.before, u.readings, u.restart, u.refused = was.before, was.readings, was.restart, was.refused
	u.out.Before, u.out.Assurance.Reset = was.out.Before, was.out.Assurance.Reset
	u.out.ResetGroup, u.out.ResetWitnesses = was.out.ResetGroup, was.out.ResetWitnesses
	for _, o := range old {
		u.residue += deref(o.out.ResidueWords)
		for _, h := range o.out.Holders {
			if !slices.Contains(u.out.Holders, h) {
				u.out.Holders = append(u.out.Holders, h)
			}
		}
		if o.out.Code != "" {
			u.worse(o.out.Verdict, o.out.Code, "%s", o.out.Message)
		}
		if r := o.scrub; r != nil && r.MismatchedWords+r.RemainingWords+r.ReadBackMismatches > 0 {
			u.worse(taskcatalog.VerdictNotClean, taskcatalog.CodeGPUResidue, "the overwrite of partition %s did not succeed", o.device.UUID)
		}
	}
}
