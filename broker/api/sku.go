package api

import (
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// SKUConfig is an operator's description of a kind of machine. For omitted fields a create takes
// the defaults, and a change keeps the present values.
type SKUConfig struct {
	ID             string   `json:"id" maxLength:"63" doc:"id such as mi300x.192g.8gpu; never changes"`
	Description    string   `json:"description,omitempty" maxLength:"500"`
	GPUVendor      string   `json:"gpu_vendor" enum:"nvidia,amd," doc:"empty: a machine without GPUs"`
	GPUModel       string   `json:"gpu_model" maxLength:"100" doc:"whole words of the vendor library's model name, in any case: H200 does not match GH200"`
	GPUCount       int      `json:"gpu_count" minimum:"0" maximum:"64"`
	GPUMemoryBytes uint64   `json:"gpu_memory_bytes" doc:"memory of each GPU"`
	NICs           []string `json:"nics" maxItems:"64" doc:"interfaces that must exist"`

	BootDisk    BootDiskRule            `json:"boot_disk"`
	GPUSettings taskcatalog.GPUSettings `json:"gpu_settings" doc:"required settings; a setting that is left out may have any value"`
	ScrubFloor  ScrubFloor              `json:"scrub_floor"`
	DPUDisks    bool                    `json:"dpu_emulated_disks,omitempty" doc:"a DPU may emulate the machine's disks, and an erase includes them: it reaches as far as the DPU allows"`

	Shape         string   `json:"shape" enum:"baremetal,gpu_slice" doc:"what a tenant gets: whole nodes, or a number of one node's GPUs"`
	AllowedCounts []int    `json:"allowed_counts" maxItems:"100" doc:"counts that a tenant may ask for, of nodes (baremetal) or of GPUs (gpu_slice); empty: any"`
	Sites         []string `json:"sites" maxItems:"100" doc:"names of the sites where the SKU is offered; empty: all sites"`
	Images        []string `json:"images" maxItems:"100" doc:"images that a tenant may choose; empty: no choice, whatever the nodes have"`

	OnBegin *BoundOperation `json:"on_begin,omitempty" doc:"runs before each allocation of the SKU becomes active, whatever the project names"`
	OnEnd   *BoundOperation `json:"on_end,omitempty" doc:"runs first when an allocation of the SKU is released, whatever the project names"`

	Reason string `json:"reason,omitempty" maxLength:"500" doc:"recorded in the audit log"`
}

// BootDiskRule says which disk a machine boots from.
type BootDiskRule struct {
	Pattern string `json:"pattern,omitempty" maxLength:"200" doc:"regular expression for model, name and id_path, in any case; default boss|boot optimized|m\\.2"`
	Pick    string `json:"pick,omitempty" enum:"smallest,largest,first," doc:"which of several matching disks is the boot disk; empty: several matches are a hardware_mismatch"`
}

// ScrubFloor is the minimum that a scrub of such a machine must reach.
type ScrubFloor struct {
	MinCoveragePercent float64 `json:"min_coverage_percent,omitempty" minimum:"0" maximum:"100" doc:"0: the vendor's default"`
	RequireReset       bool    `json:"require_reset,omitempty"`
}

// SKU describes the parts and the settings of a kind of machine.
type SKU struct {
	SKUConfig
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`

	JudgedLater []string `json:"judged_later,omitempty" doc:"in the answer to a change that binds operations: what policies say of them, and nobody can judge before an allocation begins or ends"`
}

// SKUList is every SKU, by id.
type SKUList struct {
	Standing
	Items []SKU  `json:"items"`
	Next  string `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}
