package tasks

import (
	"context"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// taskProbe reports the agent's knowledge of another task. It probes as the agent does at a start
// after a crash, and changes nothing.
func taskProbe(_ context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	res, err := r.Host.TaskStatus(r.Params.(*taskcatalog.TaskProbeParams).TaskID)
	if err != nil {
		return nil, taskcatalog.Report{}, err
	}
	return res, taskcatalog.Report{}, nil
}
