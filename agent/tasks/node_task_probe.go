package tasks

import (
	"context"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// taskProbe says what the agent knows of another task. It looks as the start after a
// crash does, and changes nothing.
func taskProbe(_ context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	res, err := r.Host.TaskStatus(r.Params.(*taskcatalog.TaskProbeParams).TaskID)
	if err != nil {
		return nil, taskcatalog.Report{}, err
	}
	return res, taskcatalog.Report{}, nil
}
