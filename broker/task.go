package broker

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// TaskStatus is where a task stands at the broker.
type TaskStatus string

// The statuses: queued → dispatched → one of the four ends. A lease that runs
// out leads back to queued.
const (
	TaskQueued     TaskStatus = "queued"
	TaskDispatched TaskStatus = "dispatched"
	TaskSucceeded  TaskStatus = "succeeded"
	TaskFailed     TaskStatus = "failed"
	TaskExpired    TaskStatus = "expired"
	TaskCanceled   TaskStatus = "canceled"
)

// Ended reports whether the status is final.
func (s TaskStatus) Ended() bool { return s != TaskQueued && s != TaskDispatched }

// Task is one task's row.
type Task struct {
	ID             string
	NodeID         string
	NodeEpoch      int64
	Type           string
	Version        int
	Class          taskcatalog.Class
	Lane           taskcatalog.Lane
	Params         json.RawMessage // as the operator sent them, without what the broker filled in
	Envelope       []byte          // what was signed and is delivered, byte for byte
	EnvelopeDigest string
	KeyID          string // task key that signed it
	Nonce          string
	Status         TaskStatus
	Attempt        int // counts deliveries
	RetryOf        string
	IdempotencyKey string
	CorrelationID  string
	TraceParent    string
	EnqueuedBy     string // audit actor

	IssuedAt        time.Time
	NotAfter        time.Time
	DispatchedAt    time.Time // of the last delivery
	LeaseUntil      time.Time
	CancelRequested bool
	EndedAt         time.Time

	Progress *Progress // the last one reported
	Outcome  taskcatalog.Outcome
	Code     taskcatalog.Code
	Message  string
	Result   json.RawMessage
	Evidence []byte // accepted envelope by the node key
	Verdict  taskcatalog.Verdict
	Late     *LateWord // of one that ended outcome_unknown; nil: nothing was heard
}

// LateWord is what a node said of a task after the broker had given up waiting for its
// end. It changes nothing about that end: whoever asked for the task was told of it.
type LateWord struct {
	At      time.Time           `json:"at"`
	Outcome taskcatalog.Outcome `json:"outcome,omitempty"` // empty: the node does not know one
	Code    taskcatalog.Code    `json:"code,omitempty"`
	Message string              `json:"message,omitempty"`
	Running bool                `json:"running,omitempty"` // it was at it still
	Probe   bool                `json:"probe,omitempty"`   // a probe found so; else it is the node's own result
}

// ProbeKey begins the idempotency key of the one probe that the broker makes by itself of
// a task that ended outcome_unknown. Its id follows.
const ProbeKey = "probe-unknown/"

// Progress is the last report of a running task. Its field names are those of
// wire.ProgressRequest.
type Progress struct {
	CurrentStepIndex int       `json:"current_step_index"`
	TotalSteps       int       `json:"total_steps"`
	CurrentStepName  string    `json:"current_step_name"`
	StepStatus       string    `json:"step_status"`
	StepStartedAt    time.Time `json:"step_started_at"`
	StepPercent      int       `json:"step_percent"`
	Message          string    `json:"message,omitempty"`
	At               time.Time `json:"at"`
}

// ResolverKey is the idempotency key of a task that was made for a want of
// resolver profiles.
func ResolverKey(want int64, try string) string { return fmt.Sprintf("resolver-%d-%s", want, try) }
