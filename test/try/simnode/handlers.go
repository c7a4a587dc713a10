package simnode

import (
	"context"
	"time"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/agent/scrub"
	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/agent/validate"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/fakegpu"
)

// settle is how long a new thing must stay to count as left behind. Nothing on the node moves by
// itself, so that it may be shorter than in the field.
const settle = time.Second

// handlers are the agent's own handlers. Two of them ask the node's kernel, for which a directory
// cannot stand: those get a simulated kernel.
func handlers(gpus *fakegpu.Machine) func(name string, version int) (tasks.Handler, bool) {
	return func(name string, version int) (tasks.Handler, bool) {
		h, ok := tasks.Lookup(name, version)
		switch name {
		case "node.validate_clean":
			h.Do = validateClean
		case "node.gpu_scrub":
			h.Do = func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
				return scrubGPUs(ctx, r, gpus)
			}
		}
		return h, ok
	}
}

func validateClean(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	kernel := validate.Kernel{
		BPF:      func() ([]machine.BPFProgram, error) { return nil, nil },
		Firewall: func(context.Context, *host.Host) ([]string, error) { return nil, nil },
		Cards:    func(string) (string, error) { return "14.32.1010", nil },
	}
	quick, on := *r, *r.Host
	on.Settle = settle
	quick.Host = &on
	return kernel.Clean(ctx, &quick)
}

// scrubGPUs is node.gpu_scrub with the log of the fake GPUs for the kernel's.
func scrubGPUs(ctx context.Context, r *host.Run, gpus *fakegpu.Machine) (any, taskcatalog.Report, error) {
	h := r.Host
	facts, err := h.Facts(ctx)
	if err != nil {
		return nil, taskcatalog.Report{}, err
	}
	s := &scrub.Scrub{
		Machine: h.Machine, Systemd: h.Systemd, Stopped: h.Stopped, Helper: h.GPU, Openers: h.Openers, Clearing: scrub.ClearingOff,
		Profiles: h.Profiles.InForce(), Commands: h.Commands, Facts: facts, KernelLog: gpus.Kmsg,
		Now: h.Now, Log: h.Log, Progress: r.Progress, Nonce: []byte(r.Task.Nonce),
		Params: r.Params.(*taskcatalog.GPUScrubParams), Vendors: gpu.Vendors, Interval: time.Second,
	}
	result, report, err := s.Do(ctx)
	return result, report, err
}
