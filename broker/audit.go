package broker

import (
	"encoding/json"
	"time"
)

// AuditEntry is one row of the audit log, written in the same transaction as the action.
type AuditEntry struct {
	ID            int64
	At            time.Time
	Actor         string
	Action        string // node.create, task.enqueue, node.transition, enroll.refused …
	Subject       string // kind/id
	Reason        string
	Before, After json.RawMessage
	CorrelationID string
	Code          string // of a refusal

	// Of rows that the request of an operator wrote, except those of earlier releases.
	Source    string // address of the request's sender
	UserAgent string // the sender's own claim
	Site      string // of the subject; empty: it has none
}
