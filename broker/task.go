package broker

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// TaskStatus is the status of a task at the broker.
type TaskStatus string

// The statuses: queued → dispatched → one of the four ends. An expired lease leads back to
// queued.
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
	Params         json.RawMessage // as the operator sent them, without values that the broker filled in
	Envelope       []byte          // the signed bytes, delivered unchanged
	EnvelopeDigest string
	KeyID          string // task key of the signature
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
	Late     *LateWord // of a task that ended outcome_unknown; nil: nothing was heard
}

// MayRun reports whether the task may still run on its node: it has not ended, or the node got it and has not said that it
// ended. The broker's own end of a task proves nothing.
func (k Task) MayRun() bool {
	switch {
	case !k.Status.Ended():
		return true
	case k.Status == TaskSucceeded, k.Outcome != "", k.Late != nil && !k.Late.Running && k.Late.Outcome != "":
		return false
	}
	return k.Attempt > 0
}

// LateWord is a node's report on a task after the broker gave up waiting for the task's end. The
// report does not change the end, because the requester was already told.
type LateWord struct {
	At      time.Time           `json:"at"`
	Outcome taskcatalog.Outcome `json:"outcome,omitempty"` // empty: the node does not know the outcome
	Code    taskcatalog.Code    `json:"code,omitempty"`
	Message string              `json:"message,omitempty"`
	Running bool                `json:"running,omitempty"` // the task was still running
	Probe   bool                `json:"probe,omitempty"`   // from a probe; otherwise the node's own result
}

// ProbeKey is the prefix of the idempotency key of the single probe that the broker makes
// automatically for a task that ended outcome_unknown. The task's id follows.
const ProbeKey = "probe-unknown/"

// Progress is the last report of a running task. The field names match wire.ProgressRequest.
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

// ResolverKey is the idempotency key of a task for a wanted set of resolver profiles.
func ResolverKey(want int64, try string) string { return fmt.Sprintf("resolver-%d-%s", want, try) }
