package tasks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/scrub"
	"github.com/hostler/hostler/taskcatalog"
)

// lookGPUs looks at what GPUs are set to and who is on them; at their memory only
// node.gpu_scrub looks. While a tenant is on the node nobody asks its GPUs.
func lookGPUs(ctx context.Context, v *validation) ([]item, error) {
	h := v.Host
	if h.GPU == nil {
		return nil, nil // an agent without a helper has reported no GPU either
	}
	if len(v.accounts) > 0 {
		return nil, errors.New("allocation " + v.accounts[0].AllocationID + " is on the node: nobody asks its GPUs")
	}
	seen, err := surveyed(ctx, h.GPU)
	if err != nil {
		return nil, err
	}
	var items []item
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
		v.now.GPUs = append(v.now.GPUs, baselineGPU(g, state))
		for _, holder := range holders {
			items = append(items, gpuItem(g, fmt.Sprintf("process/%d", holder.PID), taskcatalog.ActionGPUScrub, "process %d is on it (%s)", holder.PID, clean(holder.Kind)))
		}
	}
	if _, err := h.Facts(ctx); err != nil {
		return nil, err
	}
	for _, vendor := range gpuVendors {
		why, err := scrub.ClearingOff(h.Machine, vendor)
		if err != nil {
			return nil, fmt.Errorf("cannot tell whether the driver of %s GPUs clears what is freed: %w", vendor, err)
		}
		if why != "" {
			items = append(items, item{row: taskcatalog.CheckGPU, key: "clearing", differs: true, finding: taskcatalog.Finding{Subject: vendor, Detail: why, NextAction: taskcatalog.ActionReimage}})
		}
	}
	if v.base != nil {
		items = append(items, v.compareGPUs()...)
	}
	if v.taking {
		// Who is on a GPU when a baseline is taken is no part of it.
		items = nil
	}
	return items, nil
}

// surveyed are the GPUs that the vendors' libraries list. A library that is there
// and cannot say whether there are any hides them: that is no look at all.
func surveyed(ctx context.Context, h *gpu.Helper) ([]taskcatalog.GPUFacts, error) {
	var all []taskcatalog.GPUFacts
	for _, vendor := range gpuVendors {
		s := h.Survey(ctx, vendor)
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		for _, l := range s.Libraries {
			switch l.Problem {
			case "", gpu.CodeLibraryMissing, gpu.CodeDriverMissing:
			default:
				if len(s.GPUs) == 0 {
					return nil, fmt.Errorf("%s cannot say which GPUs there are: %s: %s", clean(l.Name), l.Problem, clean(l.Detail))
				}
			}
		}
		all = append(all, s.GPUs...)
	}
	return all, nil
}

func baselineGPU(g taskcatalog.GPUFacts, state gpu.State) taskcatalog.BaselineGPU {
	b := taskcatalog.BaselineGPU{
		Vendor: g.Vendor, UUID: g.UUID, Serial: g.Serial, PCIAddress: g.PCIAddress, Name: g.Name, MemoryBytes: g.MemoryBytes, Settings: state.Settings,
	}
	for _, i := range g.Instances {
		b.Instances = append(b.Instances, i.UUID)
	}
	return b
}

func gpuItem(g taskcatalog.GPUFacts, what, next, format string, args ...any) item {
	return item{row: taskcatalog.CheckGPU, key: g.UUID + "/" + what, differs: true, finding: taskcatalog.Finding{
		Subject: g.PCIAddress + " " + g.UUID, Detail: fmt.Sprintf(format, args...), NextAction: next,
	}}
}

// compareGPUs finds GPUs that are missing, that are new, or that are set to
// something else than in the baseline.
func (v *validation) compareGPUs() []item {
	var items []item
	same := func(a taskcatalog.BaselineGPU) func(taskcatalog.BaselineGPU) bool {
		return func(b taskcatalog.BaselineGPU) bool { return a.UUID == b.UUID }
	}
	facts := func(b taskcatalog.BaselineGPU) taskcatalog.GPUFacts {
		return taskcatalog.GPUFacts{UUID: b.UUID, PCIAddress: b.PCIAddress}
	}
	for _, was := range v.base.GPUs {
		i := slices.IndexFunc(v.now.GPUs, same(was))
		if i < 0 {
			items = append(items, gpuItem(facts(was), "missing", taskcatalog.ActionReimage, "the baseline has it and its library does not list it, serial %s", was.Serial))
			continue
		}
		for _, d := range was.Settings.Differences(v.now.GPUs[i].Settings) {
			items = append(items, gpuItem(facts(was), d.Setting, taskcatalog.ActionGPUScrub, "%s is %s and was %s", d.Setting, d.Have, d.Want))
		}
	}
	for _, is := range v.now.GPUs {
		if !slices.ContainsFunc(v.base.GPUs, same(is)) {
			items = append(items, gpuItem(facts(is), "new", taskcatalog.ActionAcceptBaseline, "the baseline does not have it"))
		}
	}
	return items
}
