package tasks

import (
	"context"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/taskcatalog"
)

// codeNoUpdates is the code of an agent that was not installed from its package.
const codeNoUpdates taskcatalog.Code = "not_packaged"

// selfUpdate hands the task to the updater of the node's versions. During the trial of the new
// version selfUpdate does not return: the watcher stops this agent.
func selfUpdate(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	return withUpdater(ctx, r, (*selfupdate.Updater).Do)
}

// resumeSelfUpdate continues the task in the next start of an agent, whatever the agent's version.
func resumeSelfUpdate(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	return withUpdater(ctx, r, (*selfupdate.Updater).Await)
}

func withUpdater(
	ctx context.Context, r *host.Run,
	do func(*selfupdate.Updater, context.Context, selfupdate.Task) (*taskcatalog.SelfUpdateResult, error),
) (any, taskcatalog.Report, error) {
	var report taskcatalog.Report
	if r.Host.Update == nil {
		return nil, report, taskcatalog.Errorf(codeNoUpdates, "cannot update the agent: it does not run from %s (install its package)",
			taskcatalog.AgentFolder)
	}
	u := *r.Host.Update
	u.Progress = func(step string, percent int, message string) {
		if r.Progress != nil {
			r.Progress(step, updateSteps[step], len(updateSteps), percent, message)
		}
	}
	result, err := do(&u, ctx, selfupdate.Task{
		ID: r.Task.TaskID, Params: r.Params.(*taskcatalog.SelfUpdateParams), Began: r.Began, Mint: r.Mint,
	})
	if result == nil { // a nil pointer would count as a result
		return nil, report, err
	}
	return result, report, err
}

// updateSteps maps each step to its index.
var updateSteps = map[string]int{"verify": 1, "fetch": 2, "unpack": 3, "self-test": 4, "switch": 5, "confirm": 6}
