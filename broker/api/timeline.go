package api

import "time"

// Timeline is the history of a node in one chronological list, oldest first.
type Timeline struct {
	Standing
	NodeID  string          `json:"node_id"`
	Items   []TimelineEvent `json:"items"`
	Next    string          `json:"next" doc:"cursor of the next page; empty: there is no next page, or the request has neither since nor cursor"`
	Earlier bool            `json:"earlier,omitzero" doc:"earlier items exist; request them with since"`
}

// TimelineEvent is one line of a timeline. An event with a duration stands at its beginning.
type TimelineEvent struct {
	At          time.Time `json:"at"`
	EndedAt     time.Time `json:"ended_at,omitzero" doc:"end of a task, run, attempt or outage; left out while it continues"`
	TookSeconds float64   `json:"took_seconds,omitzero" doc:"time from start to end"`
	Kind        string    `json:"kind" doc:"state, task, run, stage, drift, certificate, outage (a turnover keeps the node out of use), or audit (anything else done to the node or its runs)"`
	What        string    `json:"what" doc:"a task's type, a run's kind or a stage; otherwise an action such as node.transition"`
	Status      string    `json:"status,omitempty" doc:"status of a task, run or attempt; of an outage open or over"`
	Actor       string    `json:"actor,omitempty" doc:"who did or requested it"`
	TaskID      string    `json:"task_id,omitempty"`
	RunID       string    `json:"run_id,omitempty"`
	Code        string    `json:"code,omitempty" doc:"code of a failure or refusal, or the rule of a drift"`
	Detail      string    `json:"detail,omitempty"`

	NodeHoursLost *float64 `json:"node_hours_lost,omitempty" doc:"hours that an outage cost, up to now if it is open"`
	GPUHoursLost  *float64 `json:"gpu_hours_lost,omitempty" doc:"node_hours_lost times the GPUs that the node should have"`
}
