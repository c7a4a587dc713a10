package tasks

import (
	"context"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

const agentPackage = "hostler-agent"

// uninstall only lists what will be removed. The agent is removed once the broker has the result:
// an agent that removed itself first could not report.
func uninstall(_ context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	var report taskcatalog.Report
	h := r.Host
	if _, err := h.Machine.Lstat("/var/lib/dpkg/info/" + agentPackage + ".list"); err != nil {
		return nil, report, taskcatalog.Errorf("not_packaged",
			"cannot uninstall the agent: it was not installed as the package %s (stop the agent, and remove %s and %s by hand)",
			agentPackage, h.StateDir, h.ConfigDir)
	}
	return &taskcatalog.UninstallResult{Removes: []string{
		"package " + agentPackage, h.StateDir, h.ConfigDir, "/usr/lib/hostler-agent", "/usr/bin/hostler-agent",
	}}, report, nil
}

// removeAgent hands the removal to systemd: the package's own scripts stop the agent and purge its
// identity and state, in a service that outlives the agent. Terminal sessions end first, since no
// agent would be left to end them. A stuck session does not prevent the removal.
func removeAgent(ctx context.Context, h *host.Host) error {
	if _, err := h.EndTerminals(ctx, ""); err != nil {
		h.Log.Error("a terminal session could not be ended", zap.Error(err))
	}
	return h.Systemd.Run(ctx, "hostler-agent-uninstall.service", []string{"/usr/bin/dpkg", "--purge", agentPackage})
}
