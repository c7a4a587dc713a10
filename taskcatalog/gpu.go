package taskcatalog

import "fmt"

// GPUSettings are the settings of a GPU that a tenant with root can change. An empty or nil setting
// means unknown when the settings are read, and unchanged when they are applied.
type GPUSettings struct {
	Partition       string  `json:"partition,omitempty"`        // mig_enabled, mig_disabled; SPX, DPX, CPX …
	MemoryPartition string  `json:"memory_partition,omitempty"` // NPS1, NPS4 …
	ComputeMode     string  `json:"compute_mode,omitempty"`     // default, prohibited, exclusive_process
	Clocks          string  `json:"clocks,omitempty"`           // default, or set if changed by somebody
	PowerLimitMW    *uint64 `json:"power_limit_mw,omitempty"`   // milliwatts
	ECC             *bool   `json:"ecc,omitempty"`
	Persistence     *bool   `json:"persistence,omitempty"`
	// Isolation is AMD's process isolation: the cleaner shader between jobs.
	Isolation *bool `json:"isolation,omitempty"`
}

// GPUDeviation is a setting that differs from the wanted value.
type GPUDeviation struct {
	Setting string `json:"setting"` // the JSON name in GPUSettings
	Want    string `json:"want"`
	Have    string `json:"have"`
	// NeedsReset says that the GPU accepted the setting, and that the setting takes effect at the
	// next reset of the GPU.
	NeedsReset bool   `json:"needs_reset,omitempty"`
	Code       Code   `json:"code,omitempty"`
	Message    string `json:"message,omitempty"`
}

// GPUHealth decides whether a GPU may be given to the next tenant.
type GPUHealth struct {
	ECCUncorrected *uint64 `json:"ecc_uncorrected,omitempty"` // since the last reset
	ECCCorrected   *uint64 `json:"ecc_corrected,omitempty"`   // since the last reset
	ECCTotal       *uint64 `json:"ecc_total,omitempty"`       // uncorrected, over the device's life
	RemappedRows   *uint64 `json:"remapped_rows,omitempty"`
	RemapPending   *bool   `json:"remap_pending,omitempty"`
	RemapFailed    *bool   `json:"remap_failed,omitempty"`
	BadPages       *uint64 `json:"bad_pages,omitempty"`
	LinkErrors     *uint64 `json:"link_errors,omitempty"` // NVLink or XGMI, uncorrected
	// Recovery is the library's advice: none, gpu_reset, node_reboot, drain_p2p, drain_and_reset,
	// recover_imex_domain; unknown_N for a value that the agent does not know; unreadable.
	Recovery string `json:"recovery,omitempty"`
	// Fabric is not_supported, not_started, in_progress, completed or failed; "unhealthy: "
	// followed by the faulty conditions; unknown_N for a value that the agent does not know;
	// unreadable.
	Fabric string `json:"fabric,omitempty"`
}

// BaselineGPU is a GPU as it was before any tenant, and as a turnover restores it.
type BaselineGPU struct {
	Vendor      string  `json:"vendor"`
	UUID        string  `json:"uuid"`
	Serial      string  `json:"serial,omitempty"`
	PCIAddress  string  `json:"pci_address,omitempty"`
	Name        string  `json:"name,omitempty"`
	MemoryBytes *uint64 `json:"memory_bytes,omitempty"`
	// ReservedBytes is the memory that the driver reserved in the mode of Settings. ReservedBytes
	// is nil where the driver does not report it, and in a baseline of an older agent.
	ReservedBytes *uint64     `json:"reserved_bytes,omitempty"`
	Settings      GPUSettings `json:"settings"`
	Instances     []string    `json:"instances,omitempty"` // uuids of MIG instances or partitions
}

// Differences returns the settings that are known on both sides and differ, by their JSON names.
func (want GPUSettings) Differences(have GPUSettings) []GPUDeviation {
	var all []GPUDeviation
	differ := func(name, want, have string) {
		if want != "" && have != "" && want != have {
			all = append(all, GPUDeviation{Setting: name, Want: want, Have: have})
		}
	}
	differ("partition", want.Partition, have.Partition)
	differ("memory_partition", want.MemoryPartition, have.MemoryPartition)
	differ("compute_mode", want.ComputeMode, have.ComputeMode)
	differ("clocks", want.Clocks, have.Clocks)
	differ("power_limit_mw", known(want.PowerLimitMW), known(have.PowerLimitMW))
	differ("ecc", known(want.ECC), known(have.ECC))
	differ("persistence", known(want.Persistence), known(have.Persistence))
	differ("isolation", known(want.Isolation), known(have.Isolation))
	return all
}

func known[T any](v *T) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(*v)
}
