package store

import (
	"encoding/json"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// TaskFilter selects tasks; what is empty selects nothing away.
type TaskFilter struct {
	NodeID        string
	Sites         []string // nil: all
	Statuses      []broker.TaskStatus
	Type          string
	CorrelationID string
	After         string // cursor, as ListTasks gave it
	Limit         int    // 0: 100
}

// Result is how a node says a task ended, its text cleaned and its evidence
// verified by the caller.
type Result struct {
	NodeID   string
	Epoch    int64
	TaskID   string
	Attempt  int
	Status   broker.TaskStatus // succeeded, failed or canceled
	Outcome  taskcatalog.Outcome
	Code     taskcatalog.Code
	Message  string
	Result   json.RawMessage
	Evidence []byte
	Verdict  taskcatalog.Verdict
}

// Swept counts what SweepTasks moved.
type Swept struct {
	Requeued int // the lease ran out
	Expired  int // never dispatched, and past not_after
	Unknown  int // dispatched, and silent past not_after and the grace
}
