package api

import (
	"encoding/json"
	"time"
)

// AuditEntry is one row of the audit log.
type AuditEntry struct {
	ID            int64           `json:"id"`
	At            time.Time       `json:"at"`
	Actor         string          `json:"actor"`
	Action        string          `json:"action"`
	Subject       string          `json:"subject"`
	Reason        string          `json:"reason,omitempty"`
	Before        json.RawMessage `json:"before,omitempty"`
	After         json.RawMessage `json:"after,omitempty"`
	CorrelationID string          `json:"correlation_id,omitempty"`
	Code          string          `json:"code,omitempty" doc:"code of the refusal"`
	Source        string          `json:"source,omitempty" doc:"address of the sender of the operator's request"`
	UserAgent     string          `json:"user_agent,omitempty" doc:"the sender's own claim, cut at 200 characters"`
	Site          string          `json:"site,omitempty" doc:"site of the subject, in rows that an operator's request wrote"`
	Position      int64           `json:"position,omitzero" doc:"position in the chain of seals, from 1; left out until the row is sealed"`
	Seal          string          `json:"seal,omitempty" doc:"hex SHA-256 of the row and of the preceding seal"`
}

// AuditList is one page of the audit log, newest first.
type AuditList struct {
	Standing
	Items []AuditEntry `json:"items"`
	Next  string       `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// AuditVerification is the result of a walk over all seals.
type AuditVerification struct {
	OK       bool   `json:"ok"`
	Rows     int64  `json:"rows" doc:"number of sealed rows that were checked"`
	Unsealed int64  `json:"unsealed" doc:"number of rows that are not sealed yet"`
	BrokenAt int64  `json:"broken_at,omitzero" doc:"id of the first row whose seal is broken or missing"`
	Problem  string `json:"problem,omitempty"`
	HeadID   int64  `json:"head_id,omitzero" doc:"id of the last row that a signed head covers"`
	Head     string `json:"head,omitempty" doc:"seal that the head signs"`
	KeyID    string `json:"key_id,omitempty" doc:"id of the statement key that signed the head"`
}
