package ledger

import (
	"slices"

	"github.com/hostler/hostler/agent/host"
)

var _ host.LedgerView = (*Ledger)(nil)

// LatestTasks returns the tasks accepted last, the newest first, and how many more there are.
// Params and results are left out.
func (l *Ledger) LatestTasks(most int) (found []host.TaskRecord, more int, err error) {
	all, err := l.list(tasksBucket, func(e *Entry) bool {
		e.Task.Params, e.Result.Result, e.Result.Evidence, e.Result.Archive = nil, nil, "", nil // saves memory
		return true
	})
	if err != nil {
		return nil, 0, err
	}
	slices.Reverse(all)
	for _, e := range all[:min(most, len(all))] {
		found = append(found, host.TaskRecord{
			TaskID: e.Task.TaskID, Type: e.Task.Type, Version: e.Task.Version, Attempt: e.Attempt, State: string(e.State),
			AcceptedAt: e.AcceptedAt, StartedAt: e.StartedAt, FinishedAt: e.FinishedAt,
			Outcome: e.Result.Outcome, Code: e.Result.Code, Reported: e.Reported,
		})
	}
	return found, len(all) - len(found), nil
}
