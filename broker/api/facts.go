package api

import (
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// NodeFacts are the facts that a node reports about itself.
type NodeFacts struct {
	NodeID     string            `json:"node_id"`
	Hostname   string            `json:"hostname"`
	ReportedAt time.Time         `json:"reported_at" doc:"when the facts last changed"`
	Facts      taskcatalog.Facts `json:"facts"`
}
