package store

import (
	"time"

	"github.com/hostler/hostler/broker"
)

// AuditFilter selects audit rows; what is empty selects nothing away.
type AuditFilter struct {
	Actor, Action, Subject, Code string
	CorrelationID                string
	From, To                     time.Time // To is exclusive
	After                        int64     // id of the last row of the page before
	Limit                        int       // 0: 100
	Newest                       bool      // newest first; After then means before
}

// SealedEntry is an audit row with its place in the chain of seals.
type SealedEntry struct {
	broker.AuditEntry
	Position int64  // from 1; 0: not sealed yet
	Seal     string // hex SHA-256
}

// AuditTip is the end of the chain of seals.
type AuditTip struct {
	Position int64
	Seal     string
}

// AuditHead is a signed tip.
type AuditHead struct {
	AuditTip
	At       time.Time
	Envelope []byte // in-toto statement by the statement key
}
