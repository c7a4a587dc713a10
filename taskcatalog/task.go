package taskcatalog

import (
	"encoding/json"
	"time"
)

// Task is the payload that the task key signs. The broker signs a task when the task is enqueued,
// so that the node refuses a row that was changed later.
type Task struct {
	TaskID        string          `json:"task_id"`
	NodeID        string          `json:"node_id"`
	NodeEpoch     int64           `json:"node_epoch"`
	Type          string          `json:"type"`
	Version       int             `json:"version"`
	Params        json.RawMessage `json:"params"`
	Nonce         string          `json:"nonce"` // 32 random bytes, base64url without padding
	IssuedAt      time.Time       `json:"issued_at"`
	NotAfter      time.Time       `json:"not_after"` // latest start
	CorrelationID string          `json:"correlation_id"`
	TraceParent   string          `json:"traceparent,omitempty"` // W3C trace context of the enqueueing request
}

// Outcome says how a task ended on the node.
type Outcome string

// The outcomes a node may report.
const (
	OutcomeSucceeded   Outcome = "succeeded"
	OutcomeFailed      Outcome = "failed"
	OutcomeRefused     Outcome = "refused"
	OutcomeInterrupted Outcome = "interrupted"
	OutcomeCanceled    Outcome = "canceled"
)

// Valid reports whether o is a known outcome.
func (o Outcome) Valid() bool {
	switch o {
	case OutcomeSucceeded, OutcomeFailed, OutcomeRefused, OutcomeInterrupted, OutcomeCanceled:
		return true
	}
	return false
}
