package api

import "time"

// Archive is the diagnostics of a node, collected by one task.
type Archive struct {
	TaskID        string    `json:"task_id"`
	NodeID        string    `json:"node_id"`
	CorrelationID string    `json:"correlation_id,omitempty" doc:"the run that asked for it, where one did"`
	EnqueuedBy    string    `json:"enqueued_by"`
	Digest        string    `json:"digest" doc:"sha256 of the bytes, as the node has signed it with the task's result"`
	Bytes         int64     `json:"bytes"`
	CollectedAt   time.Time `json:"collected_at"`
	Archive       []byte    `json:"archive,omitempty" doc:"a gzipped tar, in base64; only where one archive is asked for"`
}

// ArchiveList lists the archives kept of a node, newest first.
type ArchiveList struct {
	Standing
	Items []Archive `json:"items"`
}
