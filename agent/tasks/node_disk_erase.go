package tasks

import (
	"context"
	"time"

	"github.com/hostler/hostler/agent/erase"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// diskErase applies the rules of agent/erase to the disks of this machine.
func diskErase(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	h := r.Host
	e := &erase.Erase{
		Machine: h.Machine, Devices: erase.DevicesOf(h.Machine), Commands: h.Commands, Params: r.Params.(*taskcatalog.DiskEraseParams),
		Rand: h.Rand, Log: h.Log, Progress: r.Progress, Interval: 5 * time.Second,
		Overwrites: h.Overwrites, Stride: 64 << 30,
	}
	result, report, err := e.Do(ctx)
	if result == nil {
		return nil, report, err
	}
	return result, report, err
}

// probeDiskErase reports the drives' own state after a crash.
func probeDiskErase(ctx context.Context, h *host.Host, t *taskcatalog.Task) string {
	typ, err := taskcatalog.Lookup(t.Type, t.Version)
	if err != nil {
		return err.Error()
	}
	params, err := typ.DecodeParams(t.Params)
	if err != nil {
		return err.Error()
	}
	return erase.Probe(ctx, h.Machine, h.Commands, params.(*taskcatalog.DiskEraseParams).Disks)
}
