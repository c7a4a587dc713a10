package taskcatalog

import "time"

var nodeTaskList = define[TaskListParams, TaskListResult](Type{
	Name: "node.task_list", Version: 1,
	Summary: "list the tasks that the node has accepted, with their outcomes, newest first; changes nothing",
	Class:   ClassProbe, Lane: LaneConcurrent, Deadline: time.Minute,
	Example: `{}`,
})

// TaskListParams is empty.
type TaskListParams struct{}

// MaxTaskList is the greatest number of tasks in one result.
const MaxTaskList = 500

// TaskListResult lists the tasks in the node's ledger. The ledger forgets a settled task a day
// after the task's end, or later.
type TaskListResult struct {
	Tasks []TaskMemory `json:"tasks"`
	More  int          `json:"more"` // number of older tasks left out
}

// TaskMemory is one task as the node remembers it.
type TaskMemory struct {
	TaskID     string    `json:"task_id"`
	Type       string    `json:"type"`
	State      string    `json:"state"` // accepted, started, finished
	AcceptedAt time.Time `json:"accepted_at"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	FinishedAt time.Time `json:"finished_at,omitzero"`
	Outcome    Outcome   `json:"outcome,omitempty"`
	Code       Code      `json:"code,omitempty"`
}
