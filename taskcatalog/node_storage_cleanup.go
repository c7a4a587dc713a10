package taskcatalog

import "time"

var nodeStorageCleanup = define[StorageCleanupParams, StorageCleanupResult](Type{
	Name: "node.storage_cleanup", Version: 1,
	Summary: "clean everything that a tenant could have written to: temporary and scratch space, homes, containers, dumps, swap",
	Class:   ClassDestructive, Lane: LaneExclusive, Deadline: 2 * time.Hour,
	BrokerFills: []string{"baseline"},
	Example:     `{"scope":"local"}`,
})

// StorageCleanupParams sets the extent of the cleanup.
type StorageCleanupParams struct {
	// Scope is local, weka or all. weka and all require the capability weka.
	Scope        string `json:"scope" jsonschema:"enum=local,enum=weka,enum=all"`
	AllocationID string `json:"allocation_id,omitempty" jsonschema:"pattern=^[a-z0-9][a-z0-9-]{0\\,63}$"`
	// Scratch are absolute path patterns such as /share*. The broker adds the patterns of the site's
	// policy.
	Scratch  []string  `json:"scratch,omitempty" jsonschema:"maxItems=64"`
	NoTrim   bool      `json:"no_trim,omitempty"`
	Baseline *Baseline `json:"baseline,omitempty"`
}

// StorageCleanupResult summarises the dispositions in the evidence.
type StorageCleanupResult struct {
	FilesRemoved int64 `json:"files_removed"`
	BytesRemoved int64 `json:"bytes_removed"`
	Failed       int   `json:"failed"`
	TrimmedBytes int64 `json:"trimmed_bytes"`
	RootWasFull  bool  `json:"root_was_full,omitempty"`
}
