package tasks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/scrub"
	"github.com/hostler/hostler/taskcatalog"
)

// gpuScrub carries out the plan of agent/scrub on this machine.
func gpuScrub(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	h := r.Host
	if h.GPU == nil {
		return nil, taskcatalog.Report{}, taskcatalog.Errorf("gpu_helper_missing",
			"cannot scrub GPUs: this agent was started without its GPU helper")
	}
	facts, err := h.Facts(ctx)
	if err != nil {
		return nil, taskcatalog.Report{}, fmt.Errorf("cannot gather the facts of this machine: %w", err)
	}
	s := &scrub.Scrub{
		Machine: h.Machine, Systemd: h.Systemd, Stopped: h.Stopped, Helper: h.GPU, Openers: h.Openers, Clearing: scrub.ClearingOff,
		Profiles: h.Profiles.InForce(), Commands: h.Commands, Facts: facts,
		Now: h.Now, Log: h.Log, Progress: r.Progress, Nonce: []byte(r.Task.Nonce),
		Params: r.Params.(*taskcatalog.GPUScrubParams), Vendors: gpu.Vendors, Interval: time.Second,
	}
	if log, err := h.Machine.OpenKernelLog(); err != nil {
		s.KernelLog = func() ([]string, error) { return nil, err }
	} else {
		defer func() { _ = log.Close() }()
		s.KernelLog = log.Lines
	}
	result, report, err := s.Do(ctx)
	return result, report, err
}

// probeGPUScrub reports the units that a crashed scrub left stopped, and the GPUs whose persistence
// mode is still off. The agent starts the units again before it takes any task, except for services
// that nobody named.
func probeGPUScrub(_ context.Context, h *host.Host, _ *taskcatalog.Task) string {
	units, err1 := h.Stopped.StoppedUnits()
	unnamed, err2 := h.Stopped.UnnamedUnits()
	off, err3 := h.Stopped.PersistentGPUs()
	if err := errors.Join(err1, err2, err3); err != nil {
		return "cannot read which services were stopped: " + err.Error()
	}
	found := "the stopped services run again"
	if len(units) > 0 {
		found = "still stopped: " + strings.Join(units, ", ")
	}
	if len(unnamed) > 0 {
		found += "; these services used a GPU, are not in stop_services, and stay stopped: " + strings.Join(unnamed, ", ")
	}
	if len(off) > 0 {
		found += "; persistence mode is still off: " + strings.Join(off, ", ")
	}
	return found + "; the GPUs must be scrubbed again"
}
