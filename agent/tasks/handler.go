package tasks

import (
	"context"

	"github.com/hostler/hostler/agent/cleanup"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/users"
	"github.com/hostler/hostler/agent/validate"
	"github.com/hostler/hostler/taskcatalog"
)

// Handler carries out one task type.
type Handler struct {
	// Do carries the task out. An error is a *taskcatalog.Error with its own code, or any other
	// error, which gets the code handler_failed. The report counts with and without an error;
	// result is nil or the type's result.
	Do func(ctx context.Context, r *host.Run) (result any, report taskcatalog.Report, err error)
	// Probe describes in one line the state found after a crash in the middle of Do. Nil: there is
	// nothing to describe.
	Probe func(ctx context.Context, h *host.Host, t *taskcatalog.Task) string
	// Completed returns the result of Do if the state after a crash proves that the task was done.
	// Nil: no state proves that.
	Completed func(h *host.Host, t *taskcatalog.Task) (result any, report taskcatalog.Report, made bool)
	// Resume continues, after a restart of the agent, a task that an earlier start began. Nil: such
	// a task counts as interrupted.
	Resume func(ctx context.Context, r *host.Run) (result any, report taskcatalog.Report, err error)
	// Inside: Resume does the work in this process, so that a cancel and the deadline end it. False:
	// the work goes on outside the agent, and Resume waits for it.
	Inside bool
	// After runs once the broker has accepted the result. Nil for most types.
	After func(ctx context.Context, h *host.Host) error
}

// handlers is the index of the package: one line per type.
var handlers = map[string]Handler{
	"node.heartbeat_check@1":      {Do: heartbeatCheck},
	"node.storage_cleanup@1":      {Do: cleanup.Clean, Probe: cleanup.Probe},
	"node.validate_clean@1":       {Do: validate.Clean},
	"node.drain@1":                {Do: drain, Probe: probeDrain},
	"node.uninstall@1":            {Do: uninstall, After: removeAgent},
	"node.trust_update@1":         {Do: trustUpdate},
	"node.rotate_identity@1":      {Do: rotateIdentity, Probe: probeRotation, Completed: rotationMade},
	"node.resolver_config@1":      {Do: resolverConfig, Probe: probeResolver},
	"node.gpu_scrub@1":            {Do: gpuScrub, Probe: probeGPUScrub},
	"node.disk_erase@1":           {Do: diskErase, Probe: probeDiskErase},
	"node.hw_sync_reseed@1":       {Do: hwSyncReseed, Probe: probeHWSync},
	"node.self_update@1":          {Do: selfUpdate, Resume: resumeSelfUpdate},
	"node.diagnostics@1":          {Do: diagnostics},
	"node.task_probe@1":           {Do: taskProbe},
	"node.task_list@1":            {Do: taskList},
	"operation.run@1":             {Do: operationRun, Resume: operationRun, Inside: true},
	"allocation.provision_user@1": {Do: users.Provision, Probe: users.Probe},
	"allocation.revoke_user@1":    {Do: users.Revoke, Probe: users.Probe},
	"allocation.check_login@1":    {Do: users.CheckLogin},
	"terminal.open@1":             {Do: terminalOpen, Probe: probeTerminal, Completed: terminalOpened},
	"terminal.close@1":            {Do: terminalClose, Probe: probeTerminal},
}

// Lookup finds the handler of a task type.
func Lookup(typeName string, version int) (Handler, bool) {
	h, ok := handlers[taskcatalog.Type{Name: typeName, Version: version}.ID()]
	return h, ok
}
