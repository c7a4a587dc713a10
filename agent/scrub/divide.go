package scrub

import (
	"context"
	"slices"

	"github.com/hostler/hostler/agent/gpu"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

const migOn = "mig_enabled"

// redivides says whether a GPU is in another mode than its baseline has it in, of
// MIG or of AMD's partitions, and the reset of this scrub will change that.
func (s *Scrub) redivides(g taskcatalog.GPUFacts, want *taskcatalog.BaselineGPU) bool {
	mode := want.Settings.Partition
	return mode != "" && g.Partition != "" && mode != g.Partition && s.Params.Reset != "never" && s.enforces(g)
}

// enforces says whether a GPU can be reset here, and settings are the agent's to put
// back, not the site's.
func (s *Scrub) enforces(g taskcatalog.GPUFacts) bool {
	reset, err1 := s.resolved(profiles.StepReset, g.Vendor, g.Architecture)
	restore, err2 := s.resolved(profiles.StepRestore, g.Vendor, g.Architecture)
	return err1 == nil && err2 == nil && !reset.Nothing() && !restore.Nothing() && restore.Builtin != ""
}

// blind is a GPU in MIG mode without an instance: nobody gets at its memory before
// the mode is off.
func (u *unit) blind() bool {
	return u.divided && u.out.Parent == "" && u.facts.Partition == migOn
}

// beforeReset are the settings that a reset may put in force. Persistence has the driver
// hold the GPU, which keeps it from being reset: restore switches it on.
func beforeReset(want taskcatalog.GPUSettings) taskcatalog.GPUSettings {
	if want.Persistence != nil && *want.Persistence {
		want.Persistence = nil
	}
	return want
}

// owe sets what the reset puts in force, of GPUs that will be reset: what is not as
// wanted now, and what would not be after it. What this does not do is looked at,
// and told, once all is restored.
func (s *Scrub) owe(ctx context.Context, going []*unit) error {
	for _, vendor := range s.Vendors {
		units := slices.DeleteFunc(slices.Clone(going), func(u *unit) bool {
			return u.device.Vendor != vendor || u.want == nil || !s.enforces(u.facts) ||
				len(beforeReset(u.want.Settings).Differences(u.before.Settings))+len(beforeReset(u.want.Settings).Differences(u.before.Pending)) == 0
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
		for _, err := range askEach(all, func(d gpu.Device) error {
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

// again overwrites the whole of each GPU that the reset brought back to its mode,
// and verifies it: of its memory a part may have been in no instance, and another
// in the reserve of the old mode.
func (s *Scrub) again(ctx context.Context) error {
	var fresh []*unit
	for _, vendor := range s.Vendors {
		old := gpus(slices.DeleteFunc(s.live(), func(u *unit) bool { return u.device.Vendor != vendor || !u.divided }))
		if len(old) == 0 {
			continue
		}
		seen := s.Helper.Survey(ctx, vendor)
		states := askEach(old, func(d gpu.Device) answer[gpu.State] { return answerOf(s.Helper.State(ctx, d)) })
		if err := context.Cause(ctx); err != nil {
			return err
		}
		for d, units := range old {
			i := slices.IndexFunc(seen.GPUs, func(g taskcatalog.GPUFacts) bool { return g.UUID == d.UUID })
			if i >= 0 && states[d].err == nil && asBefore(units[0].want, seen.GPUs[i]) {
				fresh = append(fresh, s.redivided(units, seen.GPUs[i], states[d].value)...)
			} else {
				fresh = append(fresh, stillDivided(units)...)
			}
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	s.say(profiles.StepOverwrite, 0, "once more, as the GPUs were divided before")
	s.allStillFree(ctx, "before the second overwrite")
	fresh = slices.DeleteFunc(fresh, func(u *unit) bool { return u.done })
	if err := s.overwriteThese(ctx, fresh); err != nil {
		return err
	}
	return s.verifyThese(ctx, slices.DeleteFunc(fresh, func(u *unit) bool { return u.done }))
}

// asBefore says whether a GPU is in its mode, and somebody can get at its memory: a
// reset leaves no instance of MIG.
func asBefore(want *taskcatalog.BaselineGPU, g taskcatalog.GPUFacts) bool {
	return g.Partition == want.Settings.Partition && (g.Partition != migOn || len(g.Instances) > 0)
}

// redivided takes the units that a GPU has now in place of those that it had.
func (s *Scrub) redivided(old []*unit, g taskcatalog.GPUFacts, now gpu.State) []*unit {
	fresh := s.unitsOf(g, old[0].want)
	for n, u := range fresh {
		u.follows(old)
		u.before.Nodes, u.before.Domain = now.Nodes, now.Domain
		if n > 0 {
			u.residue = 0 // it was somewhere in the GPU, and is counted once
		}
	}
	at := slices.Index(s.units, old[0])
	s.units = slices.DeleteFunc(s.units, func(u *unit) bool { return slices.Contains(old, u) })
	s.units = slices.Insert(s.units, at, fresh...)
	return fresh
}

// stillDivided leaves units what they were, and returns those whose memory nobody
// could get at yet: that nobody can is theirs to say.
func stillDivided(units []*unit) []*unit {
	var blind []*unit
	for _, u := range units {
		if u.blind() {
			blind = append(blind, u)
		}
		u.divided = false
		for _, text := range Changed(*u.want, u.facts) {
			u.worse(taskcatalog.VerdictNotClean, codeGPUChanged, "%s", text)
		}
	}
	return blind
}

// follows takes over what is known of a GPU from the units that it was divided
// into: what was wrong with one of them is wrong with it.
func (u *unit) follows(old []*unit) {
	was := old[0]
	u.before, u.looks, u.restart, u.refused = was.before, was.looks, was.restart, was.refused
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
			u.worse(taskcatalog.VerdictNotClean, taskcatalog.CodeGPUResidue, "the overwrite of %s, which it was divided into, did not take", o.device.UUID)
		}
	}
}
