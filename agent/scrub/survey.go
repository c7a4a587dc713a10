package scrub

import (
	"context"
	"fmt"
	"slices"

	"github.com/hostler/hostler/agent/facts"
	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// codeGPUChanged is the code of a GPU that differs from its baseline.
const codeGPUChanged taskcatalog.Code = "gpu_changed"

// survey finds the GPUs and compares them with the expected GPUs and with the bus.
func (s *Scrub) survey(ctx context.Context) error {
	vendors := make([]gpu.Device, len(s.Vendors))
	for i, vendor := range s.Vendors {
		vendors[i] = gpu.Device{Vendor: vendor}
	}
	var listed []taskcatalog.GPUFacts
	for i, seen := range gpu.InParallel(vendors, func(d gpu.Device) gpu.Survey { return s.Helper.Survey(ctx, d.Vendor) }) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := Unsurveyed(s.Facts, s.Vendors[i], seen); err != nil {
			s.note(taskcatalog.VerdictInconclusive, gpu.CodeDriverFailed, s.Vendors[i], "%v", err)
		}
		listed = append(listed, seen.GPUs...)
	}
	s.compare(listed)
	all := gpus(s.units)
	for d, state := range queryEach(all, func(d gpu.Device) answer[gpu.State] { return answerOf(s.Helper.State(ctx, d)) }) {
		for _, u := range all[d] {
			if state.err != nil {
				u.failed("cannot read the GPU's state", state.err)
				continue
			}
			health := state.value.Health
			u.before, u.out.Before, u.readings = state.value, &health, []gpu.Health{health}
		}
	}
	return nil
}

// Unsurveyed returns why a vendor's libraries may not have listed all its GPUs. A missing library
// or driver is acceptable only if the bus has no such GPU.
func Unsurveyed(f taskcatalog.Facts, vendor string, seen gpu.Survey) error {
	onBus := slices.ContainsFunc(f.PCI, func(d taskcatalog.PCIDevice) bool { return facts.GPUVendor(d) == vendor })
	for _, l := range seen.Libraries {
		absent := l.Problem == gpu.CodeLibraryMissing || l.Problem == gpu.CodeDriverMissing
		if l.Problem != "" && (!absent || onBus || len(seen.GPUs) > 0) {
			return fmt.Errorf("%s cannot list the GPUs: %s: %s", taskcatalog.Clean(l.Name, 100), l.Problem,
				taskcatalog.Clean(l.Detail, 500))
		}
	}
	return nil
}

// compare makes a unit of each GPU, or of each of its instances.
func (s *Scrub) compare(listed []taskcatalog.GPUFacts) {
	expected := map[string]*taskcatalog.BaselineGPU{}
	for i := range s.Params.Expected {
		expected[s.Params.Expected[i].UUID] = &s.Params.Expected[i]
	}
	for _, g := range listed {
		want := expected[g.UUID]
		delete(expected, g.UUID)
		s.units = append(s.units, s.unitsOf(g, want)...)
	}
	for _, g := range s.Params.Expected {
		if expected[g.UUID] != nil {
			s.missing = append(s.missing, g)
		}
	}
	s.unlisted = facts.Unlisted(s.Facts, listed)
}

// unitsOf returns a unit for the GPU, or a unit for each of its instances.
func (s *Scrub) unitsOf(g taskcatalog.GPUFacts, want *taskcatalog.BaselineGPU) []*unit {
	if len(g.Instances) == 0 {
		return []*unit{s.newUnit(gpu.Device{Vendor: g.Vendor, UUID: g.UUID}, g, want)}
	}
	var all []*unit
	for _, i := range g.Instances {
		u := s.newUnit(gpu.Device{Vendor: g.Vendor, UUID: i.UUID}, g, want)
		u.out.Parent, u.size = g.UUID, deref(i.MemoryBytes)
		all = append(all, u)
	}
	return all
}

func (s *Scrub) newUnit(d gpu.Device, g taskcatalog.GPUFacts, want *taskcatalog.BaselineGPU) *unit {
	u := &unit{device: d, facts: g, want: want, size: deref(g.MemoryBytes)}
	u.out = taskcatalog.GPUScrubbed{
		Vendor: d.Vendor, UUID: d.UUID, Serial: g.Serial, PCIAddress: g.PCIAddress, Name: g.Name,
		Verdict:   taskcatalog.VerdictClean,
		Assurance: taskcatalog.GPUAssurance{Overwrite: taskcatalog.OverwriteNone, Reset: taskcatalog.ResetNotTried},
	}
	for _, driver := range s.Facts.Drivers {
		if driver.Name == map[string]string{"nvidia": "nvidia", "amd": "amdgpu"}[d.Vendor] {
			u.out.Driver = driver.Version
		}
	}
	if !slices.Contains(s.Vendors, d.Vendor) {
		u.fail(taskcatalog.VerdictInconclusive, gpu.CodeUnsupported, "this agent cannot scrub a GPU of vendor %q", d.Vendor)
	}
	if want == nil {
		u.worse(taskcatalog.VerdictNotClean, taskcatalog.CodeGPUUnexpected,
			"GPU %s is on the node and not in the node's baseline (hostler node baseline retake, then accept)", g.UUID)
	} else {
		u.size = max(u.size, deref(want.MemoryBytes))
		was := *want
		if u.divided = s.changesPartition(g, want); u.divided {
			was.Instances = instances(g) // compared once the GPU is divided as before
		}
		for _, text := range Changed(was, g) {
			u.worse(taskcatalog.VerdictNotClean, codeGPUChanged, "%s", text)
		}
	}
	if len(s.policy.Drivers) > 0 && !slices.Contains(s.policy.Drivers, u.out.Driver) {
		u.worse(taskcatalog.VerdictInconclusive, "driver_not_trusted", "the driver is %q, and the site's policy does not trust it",
			u.out.Driver)
	}
	return u
}

// maxReserveGrowth is the tolerated growth, in bytes, of a driver's reserve since the baseline.
const maxReserveGrowth = 64 << 20

// Changed returns how a GPU differs from its baseline, apart from settings. Less memory, or a
// larger reserve, is memory that nobody can check: a driver option may hide it. Each MIG or
// partition mode has a reserve of its own, so reserves are compared only in the same mode.
func Changed(was taskcatalog.BaselineGPU, is taskcatalog.GPUFacts) []string {
	var all []string
	differ := func(what, was, is string) {
		if was != "" && was != is {
			all = append(all, fmt.Sprintf("its %s is %q and was %q", what, is, was))
		}
	}
	differ("serial number", was.Serial, is.Serial)
	differ("PCI address", was.PCIAddress, is.PCIAddress)
	switch {
	case was.MemoryBytes == nil:
	case is.MemoryBytes == nil:
		all = append(all, fmt.Sprintf("the GPU does not report its memory size; the baseline has %d MiB", *was.MemoryBytes>>20))
	case *is.MemoryBytes < *was.MemoryBytes:
		all = append(all, fmt.Sprintf("the GPU has %d MiB of memory; the baseline has %d MiB (see the options of the GPU's driver)",
			*is.MemoryBytes>>20, *was.MemoryBytes>>20))
	}
	mode := was.Settings.Partition == "" || is.Partition == "" || was.Settings.Partition == is.Partition
	if was.ReservedBytes != nil && mode && deref(is.ReservedBytes) > *was.ReservedBytes+maxReserveGrowth {
		all = append(all,
			fmt.Sprintf("the driver reserves %d MiB of the GPU's memory; the baseline has %d MiB (see the options of the driver)",
				*is.ReservedBytes>>20, *was.ReservedBytes>>20))
	}
	now := slices.Sorted(slices.Values(instances(is)))
	if before := slices.Sorted(slices.Values(was.Instances)); !slices.Equal(before, now) {
		all = append(all, fmt.Sprintf("its instances are %q and were %q", now, before))
	}
	return all
}

func instances(g taskcatalog.GPUFacts) []string {
	var all []string
	for _, i := range g.Instances {
		all = append(all, i.UUID)
	}
	return all
}

func deref(n *uint64) uint64 {
	if n == nil {
		return 0
	}
	return *n
}
