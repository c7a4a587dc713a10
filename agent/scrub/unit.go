package scrub

import (
	"context"
	"fmt"
	"slices"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// unit is what is scrubbed at a time: a GPU, or an instance of one.
type unit struct {
	device gpu.Device
	facts  taskcatalog.GPUFacts
	want   *taskcatalog.BaselineGPU // nil: the task does not expect it
	out    taskcatalog.GPUScrubbed

	before gpu.State
	scrub  *gpu.ScrubResult
	probe  *gpu.ProbeResult
	done   bool // no more work on it
}

// whole is the GPU that the unit is, or is a part of.
func (u *unit) whole() gpu.Device { return gpu.Device{Vendor: u.device.Vendor, UUID: u.facts.UUID} }

// worse lowers the unit's verdict; the first code stands.
func (u *unit) worse(v taskcatalog.Verdict, code taskcatalog.Code, format string, args ...any) {
	if u.out.Code == "" {
		u.out.Code, u.out.Message = code, taskcatalog.Clean(fmt.Sprintf(format, args...), taskcatalog.MaxText)
	}
	if u.out.Verdict != taskcatalog.VerdictNotClean {
		u.out.Verdict = v
	}
}

// fail is worse, and the end of work on the unit.
func (u *unit) fail(v taskcatalog.Verdict, code taskcatalog.Code, format string, args ...any) {
	u.done = true
	u.worse(v, code, format, args...)
}

// failed judges an error of the helper.
func (u *unit) failed(what string, err error) {
	verdict, code, message := gpu.JudgeFailure(err)
	u.fail(verdict, code, "%s: %s", what, message)
}

// survey finds the GPUs and compares them with those expected.
func (s *Scrub) survey(ctx context.Context) error {
	seen := s.Helper.Survey(ctx, s.Vendors...)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	expected := map[string]*taskcatalog.BaselineGPU{}
	for i := range s.Params.Expected {
		expected[s.Params.Expected[i].UUID] = &s.Params.Expected[i]
	}
	for _, g := range seen.GPUs {
		want := expected[g.UUID]
		delete(expected, g.UUID)
		parts := []gpu.Device{{Vendor: g.Vendor, UUID: g.UUID}}
		if len(g.Instances) > 0 {
			parts = nil
			for _, i := range g.Instances {
				parts = append(parts, gpu.Device{Vendor: g.Vendor, UUID: i.UUID})
			}
		}
		for _, d := range parts {
			s.units = append(s.units, s.newUnit(d, g, want))
		}
	}
	for _, g := range s.Params.Expected {
		if expected[g.UUID] != nil {
			s.missing = append(s.missing, g)
		}
	}
	all := gpus(s.units)
	for d, state := range askEach(all, func(d gpu.Device) answer[gpu.State] { return answerOf(s.Helper.State(ctx, d)) }) {
		for _, u := range all[d] {
			if state.err != nil {
				u.failed("cannot read the GPU's state", state.err)
				continue
			}
			health := state.value.Health
			u.before, u.out.Before = state.value, &health
		}
	}
	return nil
}

func (s *Scrub) newUnit(d gpu.Device, g taskcatalog.GPUFacts, want *taskcatalog.BaselineGPU) *unit {
	u := &unit{device: d, facts: g, want: want}
	u.out = taskcatalog.GPUScrubbed{
		Vendor: d.Vendor, UUID: d.UUID, Serial: g.Serial, PCIAddress: g.PCIAddress, Name: g.Name,
		Verdict:   taskcatalog.VerdictClean,
		Assurance: taskcatalog.GPUAssurance{Overwrite: taskcatalog.OverwriteNone, Reset: taskcatalog.ResetNotTried},
	}
	if d.UUID != g.UUID {
		u.out.Parent = g.UUID
	}
	for _, driver := range s.Facts.Drivers {
		if driver.Name == map[string]string{"nvidia": "nvidia", "amd": "amdgpu"}[d.Vendor] {
			u.out.Driver = driver.Version
		}
	}
	if want == nil {
		u.worse(taskcatalog.VerdictNotClean, taskcatalog.CodeGPUUnexpected, "GPU %s is on the node and not in its baseline (hostler node baseline retake, then accept)", g.UUID)
	}
	if len(s.policy.Drivers) > 0 && !slices.Contains(s.policy.Drivers, u.out.Driver) {
		u.worse(taskcatalog.VerdictInconclusive, "driver_not_trusted", "the driver is %q, and the site's policy trusts others", u.out.Driver)
	}
	return u
}
