package store

import (
	"time"

	"github.com/hostler/hostler/broker"
)

// NewNode is a node record to be. TokenHash and TokenExpires are its first
// enrol token; an empty hash makes none.
type NewNode struct {
	ID, Hostname, Site, SKU string
	Bootstrap               string // cloud-init | command
	MAASSystemID            string
	Labels                  map[string]string
	TokenHash               string
	TokenExpires            time.Time
}

// NodeFilter selects nodes; what is empty selects nothing away.
type NodeFilter struct {
	Sites    []string // nil: all
	Statuses []broker.NodeStatus
	Hostname string
	Labels   map[string]string
	Deleted  bool   // deleted nodes too, where Statuses does not say
	After    string // cursor: the id of the last node of the page before
	Limit    int    // 0: all
}

// Change is one step of a node's status.
type Change struct {
	From          broker.NodeStatus // empty: from wherever it is; else a node elsewhere is left alone
	To            broker.NodeStatus
	By            broker.Owner
	Reason        string
	CorrelationID string
	// OweTurnover and ClearTurnover change the mark in the same transaction, the
	// latter before the transition is judged.
	OweTurnover, ClearTurnover bool
}
