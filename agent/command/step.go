package command

import (
	"context"

	"github.com/hostler/hostler/agent/resolver"
	"github.com/hostler/hostler/taskcatalog"
)

// Step runs a step that resolved to a command profile, and makes a record of each attempt. inputs
// are all inputs of the step; the profile receives those named in its schema.
func (r *Runner) Step(ctx context.Context, step resolver.Resolved, inputs map[string]any) (Result, []taskcatalog.StepRecord, error) {
	began := r.Now()
	args := map[string]any{}
	for _, a := range step.Command.ArgSchema {
		if v, ok := inputs[a.Name]; ok {
			args[a.Name] = v
		}
	}
	res, err := r.Run(ctx, step.Command, args)
	var records []taskcatalog.StepRecord
	for i, a := range res.Attempts {
		records = append(records, step.Record(i+1, status(a.Code), a.Code, a.Took))
	}
	if len(records) == 0 { // refused before the first attempt
		code := taskcatalog.CodeOf(err, taskcatalog.CodeCanceled)
		records = append(records, step.Record(1, status(code), code, r.Now().Sub(began)))
	}
	return res, records, err
}

func status(code taskcatalog.Code) taskcatalog.StepStatus {
	switch {
	case code == "":
		return taskcatalog.StepSucceeded
	case code == taskcatalog.CodeCanceled:
		return taskcatalog.StepCanceled
	}
	return taskcatalog.StepFailed
}
