package api

import (
	"encoding/json"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// TaskCreate asks a node to run a task.
type TaskCreate struct {
	Type           string          `json:"type" minLength:"1" maxLength:"64"`
	Version        int             `json:"version,omitzero" minimum:"1" doc:"the newest where it is left out"`
	Params         json.RawMessage `json:"params,omitempty" doc:"checked against the type's params_schema"`
	IdempotencyKey string          `json:"idempotency_key,omitempty" maxLength:"128" doc:"the same key with the same type and params answers the task that is there"`
	RetryOf        string          `json:"retry_of,omitempty" maxLength:"64"`
	Reason         string          `json:"reason,omitempty" maxLength:"500"`
}

// Task is one task and its state.
type Task struct {
	ID              string          `json:"id"`
	NodeID          string          `json:"node_id"`
	NodeEpoch       int64           `json:"node_epoch"`
	Hostname        string          `json:"hostname,omitempty"`
	Type            string          `json:"type"`
	Version         int             `json:"version"`
	Class           string          `json:"class" doc:"probe, mutating or destructive"`
	Lane            string          `json:"lane" doc:"exclusive or concurrent"`
	Params          json.RawMessage `json:"params,omitempty" doc:"as the operator sent them"`
	Status          string          `json:"status" doc:"queued, dispatched, succeeded, failed, expired or canceled"`
	Ended           bool            `json:"ended"`
	Attempt         int             `json:"attempt" doc:"counts deliveries"`
	RetryOf         string          `json:"retry_of,omitempty"`
	IdempotencyKey  string          `json:"idempotency_key,omitempty"`
	CorrelationID   string          `json:"correlation_id,omitempty"`
	TraceParent     string          `json:"traceparent,omitempty"`
	EnqueuedBy      string          `json:"enqueued_by"`
	KeyID           string          `json:"key_id,omitempty" doc:"of the task key that signed it"`
	EnvelopeDigest  string          `json:"envelope_digest,omitempty"`
	IssuedAt        time.Time       `json:"issued_at"`
	NotAfter        time.Time       `json:"not_after" doc:"latest start"`
	DispatchedAt    time.Time       `json:"dispatched_at,omitzero"`
	LeaseUntil      time.Time       `json:"lease_until,omitzero"`
	EndedAt         time.Time       `json:"ended_at,omitzero"`
	CancelRequested bool            `json:"cancel_requested"`

	Progress *Progress       `json:"progress,omitempty"`
	Outcome  string          `json:"outcome,omitempty" doc:"succeeded, failed, refused, interrupted or canceled"`
	Code     string          `json:"code,omitempty"`
	Message  string          `json:"message,omitempty"`
	Verdict  string          `json:"verdict,omitempty" doc:"clean, not_clean or inconclusive"`
	Result   json.RawMessage `json:"result,omitempty"`
	Evidence bool            `json:"evidence" doc:"evidence was accepted and can be read"`
	Late     *LateWord       `json:"late,omitempty" doc:"what the node said of a task that ended outcome_unknown, after that"`
}

// LateWord is a node's report about a task that arrives after the broker has given up waiting for
// the task's end.
type LateWord struct {
	At      time.Time `json:"at"`
	Outcome string    `json:"outcome,omitempty" doc:"as of a task; empty: the node knows none"`
	Code    string    `json:"code,omitempty"`
	Message string    `json:"message,omitempty"`
	Running bool      `json:"running" doc:"it was at it still"`
	Probe   bool      `json:"probe" doc:"a probe found so; else it is the node's own result"`
}

// Progress is the latest progress report of a running task.
type Progress struct {
	CurrentStepIndex int       `json:"current_step_index"`
	TotalSteps       int       `json:"total_steps"`
	CurrentStepName  string    `json:"current_step_name"`
	StepStatus       string    `json:"step_status"`
	StepStartedAt    time.Time `json:"step_started_at,omitzero"`
	StepPercent      int       `json:"step_percent"`
	Message          string    `json:"message,omitempty"`
	At               time.Time `json:"at"`
}

// TaskList is one page of tasks, newest first.
type TaskList struct {
	Standing
	Items      []Task `json:"items"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// Evidence is the node's signed report about one task, verified by the broker on arrival. Envelope
// is the signed original, for an independent check.
type Evidence struct {
	TaskID   string               `json:"task_id"`
	Envelope json.RawMessage      `json:"envelope" doc:"DSSE envelope by the node's key"`
	Evidence taskcatalog.Evidence `json:"evidence" doc:"its payload"`
}

// TaskType is one row of the catalog.
type TaskType struct {
	Name            string          `json:"name"`
	Version         int             `json:"version"`
	Summary         string          `json:"summary"`
	Class           string          `json:"class"`
	Lane            string          `json:"lane"`
	DeadlineSeconds int64           `json:"deadline_seconds" doc:"from start on the node to the result"`
	StartSeconds    int64           `json:"start_seconds" doc:"from signing to the latest start"`
	Capabilities    []string        `json:"capabilities,omitempty" doc:"all must be reported by the node"`
	BrokerFills     []string        `json:"broker_fills,omitempty" doc:"params that the broker fills in; an operator who sends one is refused"`
	ByBroker        string          `json:"by_broker,omitempty" doc:"the command that has the broker enqueue it; operators cannot"`
	Example         json.RawMessage `json:"example,omitempty" doc:"params an operator could send"`
	ParamsSchema    json.RawMessage `json:"params_schema,omitempty" doc:"JSON Schema 2020-12"`
	ResultSchema    json.RawMessage `json:"result_schema,omitempty" doc:"JSON Schema 2020-12"`
	// Checks is the table of the things that are cleaned, only found, or not looked at. Only the
	// task types about residue have Checks.
	Checks []taskcatalog.CheckRow `json:"checks,omitempty"`
}

// TaskTypeList is the catalog.
type TaskTypeList struct {
	Standing
	Items []TaskType `json:"items"`
}
