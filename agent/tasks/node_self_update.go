package tasks

import (
	"context"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/taskcatalog"
)

// codeNoUpdates is the code of an agent that was not put on the node by its package.
const codeNoUpdates taskcatalog.Code = "not_packaged"

// selfUpdate hands the task to who keeps the node's versions. It does not return while
// the new version is tried: the watcher stops this agent.
func selfUpdate(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	return byUpdater(ctx, r, (*selfupdate.Updater).Do)
}

// resumeSelfUpdate is what the next start of an agent does about it, whichever version
// that is.
func resumeSelfUpdate(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	return byUpdater(ctx, r, (*selfupdate.Updater).Await)
}

func byUpdater(ctx context.Context, r *host.Run, do func(*selfupdate.Updater, context.Context, selfupdate.Task) (*taskcatalog.SelfUpdateResult, error)) (any, taskcatalog.Report, error) {
	var report taskcatalog.Report
	if r.Host.Update == nil {
		return nil, report, taskcatalog.Errorf(codeNoUpdates, "cannot update the agent: it does not run from %s (install its package)", taskcatalog.AgentFolder)
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
	if result == nil { // a nil pointer would be a result
		return nil, report, err
	}
	return result, report, err
}

// updateSteps are the places of the steps.
var updateSteps = map[string]int{"verify": 1, "fetch": 2, "unpack": 3, "self-test": 4, "switch": 5, "confirm": 6}
