package taskcatalog

import "time"

var nodeHeartbeatCheck = define[HeartbeatCheckParams, HeartbeatCheckResult](Type{
	Name: "node.heartbeat_check", Version: 1,
	Summary: "answer with version, boot and clock; changes nothing",
	Class:   ClassProbe, Lane: LaneConcurrent, Deadline: 30 * time.Second,
	Example: `{}`,
})

// HeartbeatCheckParams has no fields.
type HeartbeatCheckParams struct{}

// HeartbeatCheckResult is the node's state as the agent sees it.
type HeartbeatCheckResult struct {
	AgentVersion  string    `json:"agent_version"`
	BootID        string    `json:"boot_id"`
	UptimeSeconds int64     `json:"uptime_seconds"`
	Now           time.Time `json:"now"`
	RootFreeBytes int64     `json:"root_free_bytes"`
	Drained       bool      `json:"drained"`
	Allocations   []string  `json:"allocations,omitempty"` // ids of allocations with a provisioned user
}
