package api

import (
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// SKUConfig is an operator's description of a kind of machine. For omitted fields a create takes
// the defaults, and a change keeps the present values.
type SKUConfig struct {
	ID             string   `json:"id" maxLength:"63" doc:"such as mi300x.192g.8gpu; never changes"`
	Description    string   `json:"description,omitempty" maxLength:"500"`
	GPUVendor      string   `json:"gpu_vendor" enum:"nvidia,amd," doc:"empty: a machine without GPUs"`
	GPUModel       string   `json:"gpu_model" maxLength:"100" doc:"whole words of the name that the vendor's library gives, in any case: H200 is no GH200"`
	GPUCount       int      `json:"gpu_count" minimum:"0" maximum:"64"`
	GPUMemoryBytes uint64   `json:"gpu_memory_bytes" doc:"of each GPU"`
	NICs           []string `json:"nics" maxItems:"64" doc:"interfaces that must be there"`

	BootDisk    BootDiskRule            `json:"boot_disk"`
	GPUSettings taskcatalog.GPUSettings `json:"gpu_settings" doc:"wanted; what is left out may be anything"`
	ScrubFloor  ScrubFloor              `json:"scrub_floor"`
	DPUDisks    bool                    `json:"dpu_emulated_disks,omitempty" doc:"a DPU may show such machines their disks, and an erase takes them: it reaches as far as the DPU lets it"`
	Reason      string                  `json:"reason,omitempty" maxLength:"500" doc:"for the audit log"`
}

// BootDiskRule says which disk a machine boots from.
type BootDiskRule struct {
	Pattern string `json:"pattern,omitempty" maxLength:"200" doc:"regular expression over model, name and id_path, in any case; default boss|boot optimized|m\\.2"`
	Pick    string `json:"pick,omitempty" enum:"smallest,largest,first," doc:"decides between several that match; empty: they are a hardware_mismatch"`
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
}

// SKUList is every SKU, by id.
type SKUList struct {
	Standing
	Items []SKU `json:"items"`
}
