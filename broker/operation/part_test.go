package operation

import (
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// Only a report of the node, or a task that it never got, says that an operation does not run there any more.
func TestAnOperationRunsUntilItsNodeSaysOtherwise(t *testing.T) {
	unknown := broker.Task{Status: broker.TaskFailed, Code: taskcatalog.CodeOutcomeUnknown, Attempt: 1}
	late := func(w broker.LateWord) broker.Task {
		k := unknown
		k.Late = &w
		return k
	}
	for name, row := range map[string]struct {
		task broker.Task
		want Part
	}{
		"it succeeded":                  {broker.Task{Status: broker.TaskSucceeded, Outcome: "succeeded", Attempt: 1}, PartDone},
		"it waits in the queue":         {broker.Task{Status: broker.TaskQueued}, PartRuns},
		"it is on the node":             {broker.Task{Status: broker.TaskDispatched, Attempt: 1}, PartRuns},
		"the node says that it failed":  {broker.Task{Status: broker.TaskFailed, Outcome: "failed", Attempt: 1}, PartFailed},
		"the node says that it stopped": {broker.Task{Status: broker.TaskCanceled, Outcome: "canceled", Attempt: 1}, PartFailed},
		"it was never fetched":          {broker.Task{Status: broker.TaskCanceled, Code: taskcatalog.CodeCanceled}, PartUnread},
		"nobody fetched it in time":     {broker.Task{Status: broker.TaskExpired}, PartUnread},
		"the node is silent":            {unknown, PartRuns},
		"the node enrolled again":       {broker.Task{Status: broker.TaskFailed, Code: taskcatalog.CodeNodeReenrolled, Attempt: 1}, PartRuns},
		"a probe finds it running":      {late(broker.LateWord{Probe: true, Running: true}), PartRuns},
		"a probe finds nothing":         {late(broker.LateWord{Probe: true}), PartRuns},
		"the node reports it late":      {late(broker.LateWord{Outcome: "succeeded"}), PartFailed},
	} {
		if got := PartOf(row.task); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}
