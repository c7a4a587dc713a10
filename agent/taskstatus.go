package agent

import "github.com/hostler/hostler/taskcatalog"

// taskStatus is what this agent knows of a task, with the present finding of its handler's probe. A
// running task is not probed.
func (a *Agent) taskStatus(taskID string) (*taskcatalog.TaskProbeResult, error) {
	e, known, err := a.ledger.Get(taskID)
	if err != nil || !known {
		return &taskcatalog.TaskProbeResult{}, err
	}
	a.mu.Lock()
	r := a.running[taskID]
	running := r != nil && !r.started.IsZero()
	a.mu.Unlock()
	res := &taskcatalog.TaskProbeResult{
		Known: true, State: string(e.State), Running: running, StartedAt: e.StartedAt, FinishedAt: e.FinishedAt,
		Outcome: e.Result.Outcome, Code: e.Result.Code, Reported: e.Reported,
	}
	// A large settled task has lost its params, and a probe needs the params.
	if !running && e.Task.Params != nil {
		res.Found = a.probe(&e.Task)
	}
	return res, nil
}
