package api

import (
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// Baseline is the known-good state that a node is compared with.
type Baseline struct {
	NodeID     string               `json:"node_id"`
	Digest     string               `json:"digest"`
	AcceptedAt time.Time            `json:"accepted_at,omitzero" doc:"when an operator accepted the baseline; left out if the broker accepted the node's first baseline itself"`
	AcceptedBy string               `json:"accepted_by,omitempty"`
	Reason     string               `json:"reason,omitempty"`
	Baseline   taskcatalog.Baseline `json:"baseline"`
}

// BaselineDiff compares the baseline in force with the newest candidate that nobody has accepted
// yet.
type BaselineDiff struct {
	NodeID    string         `json:"node_id"`
	Digest    string         `json:"digest" doc:"digest of the baseline in force"`
	Candidate string         `json:"candidate,omitempty" doc:"digest of the newest baseline that was taken; empty if there is none"`
	TakenAt   time.Time      `json:"taken_at,omitzero"`
	Lines     []BaselineLine `json:"lines"`
}

// BaselineLine is one difference.
type BaselineLine struct {
	Op     string `json:"op" doc:"added, removed or changed"`
	Kind   string `json:"kind" doc:"field of the baseline: users, units, files …"`
	What   string `json:"what"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// BaselineAccept puts a candidate in force.
type BaselineAccept struct {
	Digest string `json:"digest" minLength:"71" maxLength:"71" doc:"digest of the candidate that the operator reviewed; another candidate is refused"`
	Reason string `json:"reason" minLength:"1" maxLength:"500"`
}
