package api

import (
	"encoding/json"
	"time"
)

// Run is a run of any kind. The kinds with a noun of their own (Onboarding, Decommission,
// AgentLifecycleRun, Rollout) show more of their runs there.
type Run struct {
	RunID       string `json:"id"`
	Kind        string `json:"kind" doc:"kind of run, such as node.onboarding or node.decommission/reimage"`
	Subject     string `json:"subject" doc:"hostname of the node or machine; version of a rollout"`
	NodeID      string `json:"node_id,omitempty"`
	Site        string `json:"site,omitempty"`
	BatchID     string `json:"batch_id,omitempty"`
	RequestedBy string `json:"requested_by"`

	RunState
	RunTimes
}

// RunState is how far a run has come, and what stopped it.
type RunState struct {
	Status         string `json:"status" doc:"pending, running, completed, failed_retryable, failed_manual_intervention, cancelled, compensating or reconciled"`
	Ended          bool   `json:"ended"`
	CurrentStage   string `json:"current_stage"`
	CurrentAttempt int    `json:"current_attempt"`
	Direction      string `json:"direction" doc:"forward, or undo while the run undoes its stages"`
	Waiting        string `json:"waiting,omitempty" doc:"why the run waits"`
	Asked          string `json:"asked,omitempty" doc:"action that an operator requested; takes effect after the step in flight"`

	FailureClass          string          `json:"failure_class,omitempty"`
	ErrorCode             string          `json:"error_code,omitempty"`
	ErrorMessage          string          `json:"error_message,omitempty"`
	ErrorDetails          json.RawMessage `json:"error_details,omitempty"`
	RecommendedNextAction string          `json:"recommended_next_action,omitempty" doc:"next action for an operator, including work at the machine that the run waits for"`
}

// RunTimes are the times of a run.
type RunTimes struct {
	RequestedAt    time.Time `json:"requested_at"`
	StartedAt      time.Time `json:"started_at,omitzero"`
	StageEnteredAt time.Time `json:"stage_entered_at,omitzero"`
	CompletedAt    time.Time `json:"completed_at,omitzero"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// RunDetail is a run with its stages and its history.
type RunDetail struct {
	Run
	Stages []RunStage `json:"stages" doc:"the stages in order, each detour after the stage that it rescues"`
	Events []RunEvent `json:"events" doc:"the newest 500 events, oldest first"`
}

// RunList is one page of runs, in the order of their ids. That is the order of their start, except
// that a run that another run began stands behind that run and before the next one.
type RunList struct {
	Standing
	Batch *BatchState `json:"batch,omitempty" doc:"only if batch_id is given"`
	Items []Run       `json:"items"`
	Next  string      `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// RunStage is a stage with its state in a run.
type RunStage struct {
	PlannedStage
	Status    string    `json:"status" doc:"pending, running, succeeded, skipped, failed or compensated"`
	Attempt   int       `json:"attempt"`
	StartedAt time.Time `json:"started_at,omitzero" doc:"start of the last attempt"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Message   string    `json:"message,omitempty"`
}

// PlannedStage is a line of a plan.
type PlannedStage struct {
	Stage           string `json:"stage"`
	Rescues         string `json:"rescues,omitempty" doc:"the stage that this detour rescues"`
	Optional        bool   `json:"optional" doc:"a failure of this stage does not stop the run"`
	Pivot           bool   `json:"pivot" doc:"after this stage, a cancel undoes no earlier stage"`
	Touches         string `json:"touches,omitempty"`
	Destructive     string `json:"destructive,omitempty" doc:"data that this stage destroys for good"`
	ExpectedSeconds int64  `json:"expected_seconds"`
}

// RunEvent is a line of a run's history.
type RunEvent struct {
	ID         int64           `json:"id"`
	Stage      string          `json:"stage"`
	Direction  string          `json:"direction"`
	Attempt    int             `json:"attempt"`
	Status     string          `json:"status" doc:"started, succeeded, failed, compensated or skipped"`
	Message    string          `json:"message,omitempty"`
	Details    json.RawMessage `json:"details,omitempty"`
	OccurredAt time.Time       `json:"occurred_at"`
}

// BatchState is the state of a batch as a whole.
type BatchState struct {
	BatchID     string           `json:"batch_id"`
	Site        string           `json:"site"`
	Parallel    int              `json:"parallel" doc:"how many runs proceed at a time"`
	StopAfter   int              `json:"stop_after" doc:"number of failures in a row, at one stage and of one class, after which the batch starts no more runs; 0: never"`
	StoppedAt   time.Time        `json:"stopped_at,omitzero"`
	StopReason  string           `json:"stop_reason,omitempty"`
	Counts      map[string]int64 `json:"counts" doc:"number of runs by status"`
	RequestedBy string           `json:"requested_by"`
	RequestedAt time.Time        `json:"requested_at"`
}

// RunOrder is the body of an action on a run.
type RunOrder struct {
	Reason       string `json:"reason,omitempty" maxLength:"500" doc:"recorded in the audit log; required for restart-clean, cancel, adopt and mark-manual-intervention"`
	Stage        string `json:"stage,omitempty" maxLength:"64" doc:"stage at which the operator saw the run; a run that stopped at another stage since is not changed (run_moved)"`
	FailureClass string `json:"failure_class,omitempty" maxLength:"64" doc:"failure that the operator saw; only with stage"`
	Override     string `json:"override,omitempty" maxLength:"64" doc:"for resume: continue without this stage, which is recorded as not made; only a drain or a cleanup; platform_admin only"`
}
