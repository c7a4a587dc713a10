package tasks

import (
	"context"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// taskList lists the tasks that the agent remembers: a broker restored from a backup does not know
// the newest. The node.task_list task is itself in the list.
func taskList(_ context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	remembered, more, err := r.Host.Ledger.LatestTasks(taskcatalog.MaxTaskList)
	if err != nil {
		return nil, taskcatalog.Report{}, err
	}
	res := taskcatalog.TaskListResult{More: more, Tasks: []taskcatalog.TaskMemory{}}
	for _, k := range remembered {
		res.Tasks = append(res.Tasks, taskcatalog.TaskMemory{
			TaskID: k.TaskID, Type: k.Type, State: k.State, AcceptedAt: k.AcceptedAt, StartedAt: k.StartedAt, FinishedAt: k.FinishedAt,
			Outcome: k.Outcome, Code: k.Code,
		})
	}
	return &res, taskcatalog.Report{}, nil
}
