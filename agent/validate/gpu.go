package validate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/facts"
	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/agent/scrub"
	"github.com/hostler/hostler/taskcatalog"
)

// lookGPUs compares the settings of GPUs and finds the processes that use them; only node.gpu_scrub
// looks at GPU memory. While a tenant is on the node nobody asks its GPUs.
func lookGPUs(ctx context.Context, v *validation) ([]item, error) {
	h := v.Host
	if h.GPU == nil {
		if v.base != nil && len(v.base.GPUs) > 0 {
			return nil, fmt.Errorf("the baseline has %d GPUs, and this agent was started without its GPU helper", len(v.base.GPUs))
		}
		return nil, nil // such an agent has reported no GPU either
	}
	if len(v.accounts) > 0 {
		return nil, errors.New("allocation " + v.accounts[0].AllocationID + " is on the node: its GPUs are not checked")
	}
	f, err := h.Facts(ctx)
	if err != nil {
		return nil, err
	}
	seen, unsure, err := surveyed(ctx, h.GPU, f)
	if err != nil {
		return nil, err
	}
	var items []item
	for _, d := range facts.Unlisted(f, seen) {
		items = append(items, item{row: taskcatalog.CheckGPU, key: d.Address + "/unlisted", differs: true, finding: taskcatalog.Finding{
			Subject: d.Address, Detail: fmt.Sprintf("a GPU of %s, PCI id %s:%s, is on the bus, and no vendor library lists it (driver %q)",
				facts.GPUVendor(d), d.Vendor, d.Device, d.Driver),
			NextAction: taskcatalog.ActionReimage,
		}})
	}
	if v.takesBaseline && len(items) > 0 {
		return nil, errors.New(items[0].finding.Subject + ": " + items[0].finding.Detail)
	}
	var now []taskcatalog.BaselineGPU
	for _, g := range seen {
		d := gpu.Device{Vendor: g.Vendor, UUID: g.UUID}
		state, err := h.GPU.State(ctx, d)
		if err != nil {
			return nil, fmt.Errorf("GPU %s: %w", g.UUID, err)
		}
		holders, err := h.GPU.Holders(ctx, d)
		if err != nil {
			return nil, fmt.Errorf("GPU %s: %w", g.UUID, err)
		}
		for _, holder := range holders {
			items = append(items, gpuItem(g, fmt.Sprintf("process/%d", holder.PID), taskcatalog.ActionGPUScrub, "process %d is on it (%s)",
				holder.PID, clean(holder.Kind)))
		}
		if v.base != nil {
			compared, err := v.compareGPU(g, state)
			items, unsure = append(items, compared...), errors.Join(unsure, err)
		}
		now = append(now, baselineGPU(g, state))
	}
	if v.base != nil {
		items = append(items, missingGPUs(v.base.GPUs, seen)...)
	}
	off, err := clearingOff(h.Machine)
	if err != nil {
		return nil, err
	}
	opened, err := v.openers(ctx)
	if err != nil {
		return nil, err
	}
	v.now.GPUs, items = now, append(append(items, off...), opened...)
	if v.takesBaseline {
		// The processes on a GPU are not part of a baseline, except for the services that hold
		// GPUs.
		items = slices.DeleteFunc(items, func(it item) bool { return it.differs })
	}
	// A finding counts, even if more may be hidden.
	if unsure != nil && (v.takesBaseline || !slices.ContainsFunc(items, func(it item) bool { return !v.has(it) })) {
		v.now.GPUs = nil
		return nil, unsure
	}
	return items, nil
}

func clearingOff(m *machine.Machine) ([]item, error) {
	var items []item
	for _, vendor := range gpu.Vendors {
		why, err := scrub.ClearingOff(m, vendor)
		if err != nil {
			return nil, fmt.Errorf("cannot tell whether the driver of %s GPUs clears what is freed: %w", vendor, err)
		}
		if why != "" {
			items = append(items, item{
				row: taskcatalog.CheckGPU, key: "clearing", differs: true,
				finding: taskcatalog.Finding{Subject: vendor, Detail: why, NextAction: taskcatalog.ActionReimage},
			})
		}
	}
	return items, nil
}

// surveyed returns the GPUs that the vendors' libraries list. unsure says why a library may hide
// GPUs. A library that lists none and may hide all makes the look fail.
func surveyed(ctx context.Context, h *gpu.Helper, f taskcatalog.Facts) (all []taskcatalog.GPUFacts, unsure, err error) {
	for _, vendor := range gpu.Vendors {
		s := h.Survey(ctx, vendor)
		if err := context.Cause(ctx); err != nil {
			return nil, nil, err
		}
		hides := scrub.Unsurveyed(f, vendor, s)
		if hides != nil && len(s.GPUs) == 0 {
			return nil, nil, hides
		}
		all, unsure = append(all, s.GPUs...), errors.Join(unsure, hides)
	}
	return all, unsure, nil
}

// openers finds the processes that have a device file of a GPU open. The main process of a service
// is named by the service and its program, and may be in the baseline: vendors' daemons hold GPUs
// all the time.
func (v *validation) openers(ctx context.Context) ([]item, error) {
	opened, err := v.Host.Openers(v.m)
	if err != nil {
		return nil, fmt.Errorf("cannot find who has a GPU open: %w", err)
	}
	var items []item
	for _, o := range opened {
		if len(o.Nodes) == 0 {
			return nil, fmt.Errorf("cannot tell whether process %d (%s) has a GPU open: %s", o.PID, clean(o.Name), clean(o.Unseen))
		}
		it := item{row: taskcatalog.CheckGPU, key: fmt.Sprintf("gpu/process/%d", o.PID), differs: true, finding: taskcatalog.Finding{
			Subject:    fmt.Sprintf("process %d (%s)", o.PID, clean(o.Name)),
			Detail:     fmt.Sprintf("it has %s open", clean(strings.Join(o.Nodes, ", "))),
			NextAction: taskcatalog.ActionGPUScrub,
		}}
		service, err := scrub.ServiceOf(ctx, v.m, v.Host.Systemd, o.PID)
		if err != nil {
			return nil, err
		}
		if program, err := v.m.Exe(o.PID); service != "" && err == nil {
			it.key, it.differs = "gpu/"+service+"/"+strings.TrimPrefix(program, "/"), false
		}
		items = append(items, it)
	}
	return items, nil
}

func baselineGPU(g taskcatalog.GPUFacts, state gpu.State) taskcatalog.BaselineGPU {
	b := taskcatalog.BaselineGPU{
		Vendor: g.Vendor, UUID: g.UUID, Serial: g.Serial, PCIAddress: g.PCIAddress, Name: g.Name,
		MemoryBytes: g.MemoryBytes, ReservedBytes: g.ReservedBytes, Settings: state.Settings,
	}
	b.Instances = instances(g)
	return b
}

func instances(g taskcatalog.GPUFacts) []string {
	var all []string
	for _, i := range g.Instances {
		all = append(all, i.UUID)
	}
	return all
}

func gpuItem(g taskcatalog.GPUFacts, what, next, format string, args ...any) item {
	return item{row: taskcatalog.CheckGPU, key: g.UUID + "/" + what, differs: true, finding: taskcatalog.Finding{
		Subject: g.PCIAddress + " " + g.UUID, Detail: fmt.Sprintf(format, args...), NextAction: next,
	}}
}

// compareGPU compares a GPU with the baseline: the device itself, the settings in force, and the
// settings after the next reset. A setting that can no longer be read makes the look unsure.
func (v *validation) compareGPU(g taskcatalog.GPUFacts, state gpu.State) ([]item, error) {
	i := slices.IndexFunc(v.base.GPUs, func(b taskcatalog.BaselineGPU) bool { return b.UUID == g.UUID })
	if i < 0 {
		return []item{gpuItem(g, "new", taskcatalog.ActionAcceptBaseline, "not in the baseline")}, nil
	}
	was := v.base.GPUs[i]
	var items []item
	var unsure error
	if unknown := scrub.Unreadable(was.Settings, state.Settings); len(unknown) > 0 {
		unsure = fmt.Errorf("GPU %s: cannot read %s, which is in the baseline", g.UUID, strings.Join(unknown, ", "))
	}
	asIs := was
	if mode := was.Settings.Partition; mode != "" && g.Partition != "" && mode != g.Partition {
		asIs.Instances = instances(g) // instances come and go with the mode; the changed mode is found below
	}
	for n, text := range scrub.Changed(asIs, g) {
		items = append(items, gpuItem(g, fmt.Sprintf("changed/%d", n), taskcatalog.ActionReimage, "%s", text))
	}
	for _, d := range was.Settings.Differences(state.Settings) {
		items = append(items, gpuItem(g, d.Setting, taskcatalog.ActionGPUScrub, "%s is %s and was %s", d.Setting, d.Have, d.Want))
	}
	for _, d := range was.Settings.Differences(state.Pending) {
		items = append(items, gpuItem(g, "pending/"+d.Setting, taskcatalog.ActionGPUScrub, "%s is %s after the next reset and was %s",
			d.Setting, d.Have, d.Want))
	}
	return items, unsure
}

// missingGPUs lists the baseline's GPUs that no library lists.
func missingGPUs(base []taskcatalog.BaselineGPU, seen []taskcatalog.GPUFacts) []item {
	var items []item
	for _, was := range base {
		if !slices.ContainsFunc(seen, func(g taskcatalog.GPUFacts) bool { return g.UUID == was.UUID }) {
			items = append(items, gpuItem(taskcatalog.GPUFacts{UUID: was.UUID, PCIAddress: was.PCIAddress}, "missing",
				taskcatalog.ActionReimage,
				"the GPU is in the baseline, and its vendor library does not list it; serial number %s", was.Serial))
		}
	}
	return items
}
