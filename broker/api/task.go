package api

import (
	"encoding/json"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// TaskCreate asks a node to run a task.
type TaskCreate struct {
	Type           string          `json:"type" minLength:"1" maxLength:"64"`
	Version        int             `json:"version,omitzero" minimum:"1" doc:"default: the newest version"`
	Params         json.RawMessage `json:"params,omitempty" doc:"checked against the type's params_schema"`
	IdempotencyKey string          `json:"idempotency_key,omitempty" maxLength:"128" doc:"a repeated request with the same key, type and params returns the existing task"`
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
	Params          json.RawMessage `json:"params,omitempty" doc:"params as the operator sent them"`
	Status          string          `json:"status" doc:"queued, dispatched, succeeded, failed, expired or canceled"`
	Ended           bool            `json:"ended"`
	Attempt         int             `json:"attempt" doc:"number of deliveries"`
	RetryOf         string          `json:"retry_of,omitempty"`
	IdempotencyKey  string          `json:"idempotency_key,omitempty"`
	CorrelationID   string          `json:"correlation_id,omitempty"`
	TraceParent     string          `json:"traceparent,omitempty"`
	EnqueuedBy      string          `json:"enqueued_by"`
	KeyID           string          `json:"key_id,omitempty" doc:"id of the task key that signed the task"`
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
	Late     *LateWord       `json:"late,omitempty" doc:"later report of the node about a task that ended with outcome_unknown"`
}

// LateWord is a node's report about a task that arrives after the broker has given up waiting for
// the task's end.
type LateWord struct {
	At      time.Time `json:"at"`
	Outcome string    `json:"outcome,omitempty" doc:"outcome of the task; empty: the node has no record of the task"`
	Code    string    `json:"code,omitempty"`
	Message string    `json:"message,omitempty"`
	Running bool      `json:"running" doc:"the task was still running"`
	Probe   bool      `json:"probe" doc:"true: a probe found the outcome; false: the node reported the outcome itself"`
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
	Items []Task `json:"items"`
	Next  string `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// Evidence is the node's signed report about one task, verified by the broker on arrival. Envelope
// is the signed original, for an independent check.
type Evidence struct {
	TaskID   string               `json:"task_id"`
	Envelope json.RawMessage      `json:"envelope" doc:"DSSE envelope, signed with the node's key"`
	Evidence taskcatalog.Evidence `json:"evidence" doc:"payload of the envelope"`
}

// TaskType is one row of the catalog.
type TaskType struct {
	Name            string          `json:"name"`
	Version         int             `json:"version"`
	Summary         string          `json:"summary"`
	Class           string          `json:"class"`
	Lane            string          `json:"lane"`
	DeadlineSeconds int64           `json:"deadline_seconds" doc:"time from the start on the node to the result"`
	StartSeconds    int64           `json:"start_seconds" doc:"time from signing to the latest start"`
	Capabilities    []string        `json:"capabilities,omitempty" doc:"capabilities that the node must report"`
	BrokerFills     []string        `json:"broker_fills,omitempty" doc:"params that only the broker sets; a request with one of them is refused"`
	ByBroker        string          `json:"by_broker,omitempty" doc:"command with which the broker enqueues this type; operators cannot enqueue it directly"`
	Example         json.RawMessage `json:"example,omitempty" doc:"example of params"`
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
	Next  string     `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}
