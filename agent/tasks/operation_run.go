package tasks

import (
	"context"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/plan"
	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/taskcatalog"
)

// operationRun carries out the plan of an operation. It also goes on after a restart of the agent: the
// journal knows how far the task came.
func operationRun(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	o := &plan.Operation{
		Plan: r.Params.(*taskcatalog.OperationPlan), TaskID: r.Task.TaskID, Host: r.Host, Journal: r.Host.Operations,
		Kinds: steps.Lookup, Progress: r.Progress, Mint: r.MintStep, Pause: host.Wait,
	}
	result, report, err := o.Do(ctx)
	if result == nil { // a nil pointer would count as a result
		return nil, report, err
	}
	return result, report, err
}
