package scrub

import (
	"context"
	"slices"

	"github.com/hostler/hostler/agent/command"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// validate asks whether the driver is whole: without a profile for that nothing is
// begun.
func (s *Scrub) validate(ctx context.Context) error {
	return s.ask(ctx, profiles.StepDriverValidate, "driver_invalid", "the driver is not whole")
}

// ask runs a step that has no builtin: the vendor's own tool says whether it is so.
func (s *Scrub) ask(ctx context.Context, step string, code taskcatalog.Code, wrong string) error {
	for _, vendor := range s.Vendors {
		mine := slices.DeleteFunc(s.live(), func(u *unit) bool { return u.device.Vendor != vendor })
		if len(mine) == 0 {
			continue
		}
		r, err := s.resolve(step, mine)
		if optional := step != profiles.StepDriverValidate; optional && taskcatalog.CodeOf(err, "") == profiles.CodeProfileMissing {
			continue // the profiles do not name it, which the record says
		}
		if err != nil {
			return err
		}
		if r.Command == nil {
			s.record(r, taskcatalog.StepSkipped, "", s.Now())
			continue
		}
		_, records, err := s.Commands.Step(ctx, r, nil)
		if step == profiles.StepContainerRuntime && taskcatalog.CodeOf(err, "") == command.CodeExecutableMissing {
			records[0].Status, err = taskcatalog.StepSkipped, nil
		}
		s.records = append(s.records, records...)
		if ctxErr := context.Cause(ctx); ctxErr != nil {
			return ctxErr
		}
		for _, u := range mine {
			if err != nil {
				u.worse(taskcatalog.VerdictInconclusive, code, "%s: %v", wrong, err)
			}
		}
	}
	return nil
}

// Why no container engine was asked, and what came of one that was.
const (
	codeNoEngine         taskcatalog.Code = "no_container_engine"
	codeContainersBroken taskcatalog.Code = "gpu_container_runtime_broken"
)

// containers asks the vendor's toolkit whether it can hand the GPUs to containers,
// where an engine is a fact of the node. One without the toolkit gives no container a
// GPU, so that there is nothing to be broken: that is recorded, and no finding.
func (s *Scrub) containers(ctx context.Context) error {
	if engine := s.Facts.Keys["container.runtime"]; engine != "" && engine != "none" {
		return s.ask(ctx, profiles.StepContainerRuntime, codeContainersBroken, "containers cannot be given the GPUs as they are")
	}
	for _, vendor := range s.Vendors {
		i := slices.IndexFunc(s.units, func(u *unit) bool { return u.device.Vendor == vendor && !u.done })
		if i >= 0 {
			r, _ := s.resolved(profiles.StepContainerRuntime, vendor, s.units[i].facts.Architecture)
			s.record(r, taskcatalog.StepSkipped, codeNoEngine, s.Now())
		}
	}
	return nil
}
