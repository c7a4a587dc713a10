package api

import "time"

// Timeline is the history of a node in one chronological list, oldest first.
type Timeline struct {
	Standing
	NodeID     string          `json:"node_id"`
	Items      []TimelineEvent `json:"items"`
	NextCursor string          `json:"next_cursor,omitempty" doc:"where it goes on; of one that was asked for from a time on"`
	Earlier    bool            `json:"earlier,omitzero" doc:"what came before the first item was left out: ask with since"`
}

// TimelineEvent is one line of a timeline. An event with a duration stands at its beginning.
type TimelineEvent struct {
	At          time.Time `json:"at"`
	EndedAt     time.Time `json:"ended_at,omitzero" doc:"of a task, a run, an attempt at a stage or an outage; none while it goes on"`
	TookSeconds float64   `json:"took_seconds,omitzero" doc:"between the two"`
	Kind        string    `json:"kind" doc:"state, task, run, stage, drift, certificate, outage while a turnover keeps it out of use, or audit for whatever else was done to the node or its runs"`
	What        string    `json:"what" doc:"a task's type, a run's kind, a stage; else what was done, such as node.transition"`
	Status      string    `json:"status,omitempty" doc:"of a task, a run or an attempt at a stage; of an outage open or over"`
	Actor       string    `json:"actor,omitempty" doc:"who did it, or asked for it"`
	TaskID      string    `json:"task_id,omitempty"`
	RunID       string    `json:"run_id,omitempty"`
	Code        string    `json:"code,omitempty" doc:"of a failure, a refusal, or the rule of a drift"`
	Detail      string    `json:"detail,omitempty"`

	NodeHoursLost *float64 `json:"node_hours_lost,omitempty" doc:"of an outage, by now or in all"`
	GPUHoursLost  *float64 `json:"gpu_hours_lost,omitempty" doc:"that, times the GPUs that the node shall have"`
}
