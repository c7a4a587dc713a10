package taskcatalog

import "time"

var nodeTaskProbe = define[TaskProbeParams, TaskProbeResult](Type{
	Name: "node.task_probe", Version: 1,
	Summary: "report what the node knows about another task, and the present state; changes nothing",
	Class:   ClassProbe, Lane: LaneConcurrent, Deadline: time.Minute,
	Example: `{"task_id": "t-0000o3v8k1c2me0b5qk7s1n4r9d2"}`,
})

// TaskProbeParams names the task to look up.
type TaskProbeParams struct {
	TaskID string `json:"task_id" jsonschema:"pattern=^t-[0-9a-z-]{1\\,80}$"`
}

// TaskProbeResult reports the ledger's entry of a task, and what the task type's own look finds
// now. The ledger forgets a settled task a day after the task's end, or later.
type TaskProbeResult struct {
	Known      bool      `json:"known"`
	State      string    `json:"state,omitempty"` // accepted, started, finished
	Running    bool      `json:"running"`         // in the agent, at this moment
	StartedAt  time.Time `json:"started_at,omitzero"`
	FinishedAt time.Time `json:"finished_at,omitzero"`
	Outcome    Outcome   `json:"outcome,omitempty"`
	Code       Code      `json:"code,omitempty"`
	Reported   bool      `json:"reported"`        // the broker has accepted the result, or never will
	Found      string    `json:"found,omitempty"` // one line, if the task type can look
}
