package broker

import "time"

// Usage is the time for which an allocation is billed: from active to the begin of its release.
type Usage struct {
	AllocationID, ProjectID, SKU, Site string
	Nodes                              int // whole nodes; 0: GPUs of one node
	GPUs                               int // of all nodes, by the SKU when the allocation became active
	From                               time.Time
	To                                 time.Time // zero: in use
}

// Within is how much of the usage lies in a period that ends at the present time or before. Usage
// without an end lasts until the end of the period.
func (u Usage) Within(from, to time.Time) time.Duration {
	end := u.To
	if end.IsZero() || end.After(to) {
		end = to
	}
	if u.From.After(from) {
		from = u.From
	}
	return max(end.Sub(from), 0)
}

// UsageTotal is the usage of a project and SKU in a period: the sums over all nodes and all GPUs, in
// microseconds. A time.Duration would overflow at 292 years, which 300 GPUs have within a year.
type UsageTotal struct {
	ProjectID, SKU     string
	NodeMicros         int64
	GPUMicros          int64
	Allocations, InUse int
}

// NodeHours is the sum over all nodes.
func (t UsageTotal) NodeHours() float64 { return float64(t.NodeMicros) / microsAnHour }

// GPUHours is the sum over all GPUs.
func (t UsageTotal) GPUHours() float64 { return float64(t.GPUMicros) / microsAnHour }

const microsAnHour = float64(time.Hour / time.Microsecond)
