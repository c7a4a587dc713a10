package scrub

import (
	"context"
	"slices"

	"github.com/hostler/hostler/agent/command"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// validate runs the driver check of the profiles. Without a profile for the check the scrub does
// not begin.
func (s *Scrub) validate(ctx context.Context) error {
	return s.runVendorTool(ctx, profiles.StepDriverValidate, "driver_invalid", "the driver is incomplete")
}

// runVendorTool runs a step without a builtin: the vendor's own tool gives the answer.
func (s *Scrub) runVendorTool(ctx context.Context, step string, code taskcatalog.Code, wrong string) error {
	for _, vendor := range s.Vendors {
		mine := slices.DeleteFunc(s.live(), func(u *unit) bool { return u.device.Vendor != vendor })
		if len(mine) == 0 {
			continue
		}
		r, err := s.resolve(step, mine)
		if optional := step != profiles.StepDriverValidate; optional && taskcatalog.CodeOf(err, "") == profiles.CodeProfileMissing {
			continue // the profiles do not name the step; the record says so
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

// Why the container check was skipped, and the code of a failed check.
const (
	codeNoEngine         taskcatalog.Code = "no_container_engine"
	codeContainersBroken taskcatalog.Code = "gpu_container_runtime_broken"
)

// containers asks the vendor's toolkit whether it can give the GPUs to containers, if the node's
// facts name a container engine. An engine without the toolkit gives no container a GPU, so nothing
// can be broken: the missing toolkit is recorded, and is no finding.
func (s *Scrub) containers(ctx context.Context) error {
	if engine := s.Facts.Keys["container.runtime"]; engine != "" && engine != "none" {
		return s.runVendorTool(ctx, profiles.StepContainerRuntime, codeContainersBroken,
			"containers cannot use the GPUs in their present state")
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
