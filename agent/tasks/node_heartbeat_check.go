package tasks

import (
	"context"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

func heartbeatCheck(_ context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	var report taskcatalog.Report
	h := r.Host
	res := &taskcatalog.HeartbeatCheckResult{
		AgentVersion: h.Version, Now: h.Now().UTC(), Drained: h.Marks.Drained(),
	}
	boot, err := h.Machine.BootID()
	if err != nil {
		return nil, report, err
	}
	res.BootID = boot
	up, err := h.Machine.Uptime()
	if err != nil {
		return nil, report, err
	}
	res.UptimeSeconds = int64(up.Seconds())
	space, err := h.Machine.Space("/")
	if err != nil {
		return nil, report, err
	}
	res.RootFreeBytes = space.Free
	accounts, err := h.Accounts.List()
	if err != nil {
		return nil, report, err
	}
	for _, a := range accounts {
		res.Allocations = append(res.Allocations, a.AllocationID)
	}
	return res, report, nil
}
