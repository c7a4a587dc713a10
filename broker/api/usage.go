package api

import "time"

// Usage is the time for which an allocation is billed: from active to the begin of its release.
type Usage struct {
	AllocationID string     `json:"allocation_id"`
	ProjectID    string     `json:"project_id"`
	SKU          string     `json:"sku"`
	Site         string     `json:"site"`
	Nodes        int        `json:"nodes" doc:"number of whole nodes; 0: GPUs of one node"`
	GPUs         int        `json:"gpus" doc:"GPUs of all nodes, by the SKU when the allocation became active"`
	From         time.Time  `json:"from"`
	To           *time.Time `json:"to" doc:"null: in use"`
	Seconds      float64    `json:"seconds" doc:"the part within the period"`
}

// UsageTotal is the usage of a project and SKU within a period.
type UsageTotal struct {
	ProjectID   string  `json:"project_id"`
	SKU         string  `json:"sku"`
	NodeHours   float64 `json:"node_hours"`
	GPUHours    float64 `json:"gpu_hours"`
	Allocations int     `json:"allocations"`
	InUse       int     `json:"in_use" doc:"allocations in use now"`
}

// PlatformUsageList is one page of the usage of all projects.
type PlatformUsageList struct {
	Standing
	UsageList
}

// UsageList is one page of the usage within a period, oldest first.
type UsageList struct {
	From   time.Time    `json:"from"`
	To     time.Time    `json:"to" doc:"end of the period, exclusive; the present time at most"`
	Totals []UsageTotal `json:"totals" doc:"of all pages; the first page alone has them"`
	Items  []Usage      `json:"items"`
	Next   string       `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}
