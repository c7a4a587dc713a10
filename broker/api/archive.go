package api

import "time"

// Archive is the diagnostics of a node, collected by one task.
type Archive struct {
	TaskID        string    `json:"task_id"`
	NodeID        string    `json:"node_id"`
	CorrelationID string    `json:"correlation_id,omitempty" doc:"the run that requested the archive; left out if no run did"`
	EnqueuedBy    string    `json:"enqueued_by"`
	Digest        string    `json:"digest" doc:"SHA-256 of the archive, as the node signed it in the task's result"`
	Bytes         int64     `json:"bytes"`
	CollectedAt   time.Time `json:"collected_at"`
	Archive       []byte    `json:"archive,omitempty" doc:"gzipped tar in base64; only if a single archive is requested"`
}

// ArchiveList lists the archives kept of a node, newest first.
type ArchiveList struct {
	Standing
	Items []Archive `json:"items"`
	Next  string    `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}
