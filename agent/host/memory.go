package host

import (
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// TaskRecord is a task of the ledger, without its parameters and evidence.
type TaskRecord struct {
	TaskID     string              `json:"task_id"`
	Type       string              `json:"type"`
	Version    int                 `json:"version"`
	Attempt    int                 `json:"attempt"`
	State      string              `json:"state"`
	AcceptedAt time.Time           `json:"accepted_at"`
	StartedAt  time.Time           `json:"started_at,omitzero"`
	FinishedAt time.Time           `json:"finished_at,omitzero"`
	Outcome    taskcatalog.Outcome `json:"outcome,omitempty"`
	Code       taskcatalog.Code    `json:"code,omitempty"`
	Reported   bool                `json:"reported"`
}

// LedgerView is the part of the agent's ledger that others may see.
type LedgerView interface {
	// LatestTasks lists the latest accepted tasks, newest first, and counts the rest.
	LatestTasks(most int) (tasks []TaskRecord, more int, err error)
	// Facts returns the facts gathered last; ok is false if there are none.
	Facts() (f taskcatalog.Facts, ok bool, err error)
}
