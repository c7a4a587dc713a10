package taskcatalog

import "time"

var nodeGPUScrub = define[GPUScrubParams, GPUScrubResult](Type{
	Name: "node.gpu_scrub", Version: 1,
	Summary: "overwrite the memory of every GPU with a pattern of this task, verify it, reset, and inspect the memory as the next tenant would see it",
	Class:   ClassDestructive, Lane: LaneExclusive, Deadline: 2 * time.Hour,
	Capabilities: []string{"gpu.vendor"},
	BrokerFills:  []string{"expected", "policy"},
	Example:      `{"reset":"auto"}`,
})

// GPUScrubParams lists the expected GPUs and the policy.
type GPUScrubParams struct {
	AllocationID string `json:"allocation_id,omitempty" jsonschema:"pattern=^[a-z0-9][a-z0-9-]{0\\,63}$"`
	// Reset is auto, the default: reset the GPU where the platform allows a reset. never skips the
	// reset, and the assurance says so.
	Reset string `json:"reset,omitempty" jsonschema:"enum=auto,enum=never"`
	// Expected are the GPUs of the node's baseline. A missing GPU makes the scrub inconclusive; an
	// additional GPU is a finding.
	Expected []BaselineGPU   `json:"expected,omitempty" jsonschema:"maxItems=64"`
	Policy   *GPUScrubPolicy `json:"policy,omitempty"`
}

// GPUScrubPolicy is a site's policy for scrubs. Zero values mean the defaults.
type GPUScrubPolicy struct {
	// MinCoveragePercent is the required share of the memory that the driver does not reserve: 98
	// for NVIDIA, 97 for AMD. Alternatively, at most MaxUncoveredBytes uncovered bytes (2 GiB)
	// suffice.
	MinCoveragePercent float64 `json:"min_coverage_percent,omitempty" jsonschema:"minimum=0,maximum=100"`
	MaxUncoveredBytes  uint64  `json:"max_uncovered_bytes,omitempty"`
	// RequireReset makes a GPU without a proven reset inconclusive.
	RequireReset bool `json:"require_reset,omitempty"`
	// AllowUnverified lets a GPU with an unverified overwrite be clean.
	AllowUnverified bool `json:"allow_unverified,omitempty"`
	// KeepHolders leaves processes that hold a GPU alone. Such a GPU is not scrubbed.
	KeepHolders bool `json:"keep_holders,omitempty"`
	// StopServices are units that may be stopped during the scrub, in addition to the vendors'
	// daemons.
	StopServices []string `json:"stop_services,omitempty" jsonschema:"maxItems=64"`
	// HolderGraceSeconds is the time between SIGTERM and SIGKILL; default 10.
	HolderGraceSeconds int `json:"holder_grace_seconds,omitempty" jsonschema:"minimum=0,maximum=300"`
	// FabricWaitSeconds is the time that the fabric may take after a reset; default 300.
	FabricWaitSeconds int `json:"fabric_wait_seconds,omitempty" jsonschema:"minimum=0,maximum=3600"`
	// Drivers are the trusted driver versions; an empty list trusts any version.
	Drivers []string `json:"drivers,omitempty" jsonschema:"maxItems=64"`
}

// Failure classes of a scrub: architecture chapter 6.
const (
	CodeGPUHolderPresent     Code = "gpu_holder_present"
	CodeGPUScrubIncomplete   Code = "gpu_scrub_incomplete"
	CodeGPUResetRefused      Code = "gpu_reset_refused"
	CodeGPUResetUnproven     Code = "gpu_reset_unproven"
	CodeGPUHardwareFault     Code = "gpu_hw_fault"
	CodeDriverScrubDisabled  Code = "driver_scrub_disabled"
	CodeGPUMissing           Code = "gpu_missing"
	CodeGPUUnexpected        Code = "gpu_unexpected"
	CodeGPUSettingUnrestored Code = "gpu_setting_unrestored"
	CodeGPUResidue           Code = "gpu_residue"
)

// GPUScrubResult reports the work on all GPUs and the state of each GPU.
type GPUScrubResult struct {
	Verdict   Verdict          `json:"verdict"`
	Assurance GPUAssurance     `json:"assurance"` // the lowest assurance of all GPUs
	GPUs      []GPUScrubbed    `json:"gpus"`
	Steps     []StepRecord     `json:"steps"`
	Stopped   []GPUInterrupted `json:"stopped,omitempty"`
}

// GPUAssurance says how well a verdict is founded. The broker, not the node, records the system
// that ran on the node during the scrub.
type GPUAssurance struct {
	// Overwrite is verified, unverified or none.
	Overwrite string `json:"overwrite"`
	// Reset is proven, unproven, refused, unsupported or not_tried.
	Reset string `json:"reset"`
}

// The values of an assurance, from the strongest to the weakest.
const (
	OverwriteVerified   = "verified"
	OverwriteUnverified = "unverified"
	OverwriteNone       = "none"
	ResetProven         = "proven"
	ResetUnproven       = "unproven"
	ResetRefused        = "refused"
	ResetUnsupported    = "unsupported"
	ResetNotTried       = "not_tried"
)

// GPUScrubbed is one unit of a scrub: a GPU or an instance of a GPU. Unmeasured figures are
// missing.
type GPUScrubbed struct {
	Vendor     string `json:"vendor"`
	UUID       string `json:"uuid"`
	Parent     string `json:"parent,omitempty"` // for an instance: the GPU's uuid
	Serial     string `json:"serial,omitempty"`
	PCIAddress string `json:"pci_address,omitempty"`
	Name       string `json:"name,omitempty"`

	Verdict   Verdict      `json:"verdict"`
	Code      Code         `json:"code,omitempty"` // the first fault
	Message   string       `json:"message,omitempty"`
	Assurance GPUAssurance `json:"assurance"`

	TotalBytes      *uint64        `json:"total_bytes,omitempty"`
	ReservedBytes   *uint64        `json:"reserved_bytes,omitempty"`
	CoveredBytes    *uint64        `json:"covered_bytes,omitempty"`
	CoveragePercent *float64       `json:"coverage_percent,omitempty"`
	Excluded        []GPUExclusion `json:"excluded,omitempty"`

	ResidueWords       *uint64 `json:"residue_words,omitempty"`    // not zero before the overwrite; a word is 8 bytes
	MismatchedWords    *uint64 `json:"mismatched_words,omitempty"` // different from the written pattern
	RemainingWords     *uint64 `json:"remaining_words,omitempty"`  // not zero after the last pass
	ReadBackBytes      *uint64 `json:"read_back_bytes,omitempty"`
	ReadBackMismatches *uint64 `json:"read_back_mismatches,omitempty"`
	ComparedOnGPU      *bool   `json:"compared_on_gpu,omitempty"`
	ProbedBytes        *uint64 `json:"probed_bytes,omitempty"` // by a fresh process, after the reset
	ProbedNonZeroWords *uint64 `json:"probed_non_zero_words,omitempty"`
	// LocalCleared says that registers and local data shares were cleared. The field is missing if
	// the vendor has no call for clearing.
	LocalCleared *bool   `json:"local_cleared,omitempty"`
	FillRate     *uint64 `json:"fill_rate,omitempty"` // bytes a second
	VerifyRate   *uint64 `json:"verify_rate,omitempty"`
	MemsetRate   *uint64 `json:"memset_rate,omitempty"`

	ResetGroup     []string       `json:"reset_group,omitempty"` // uuids that were reset together
	ResetWitnesses []string       `json:"reset_witnesses,omitempty"`
	Holders        []GPUHolder    `json:"holders,omitempty"`
	Deviations     []GPUDeviation `json:"deviations,omitempty"`
	Before         *GPUHealth     `json:"before,omitempty"`
	After          *GPUHealth     `json:"after,omitempty"`
	Driver         string         `json:"driver,omitempty"`
}

// Figures returns the best verdict that the GPU's own figures allow, whatever its Verdict says.
func (g GPUScrubbed) Figures() Verdict {
	for _, words := range []*uint64{g.MismatchedWords, g.RemainingWords, g.ReadBackMismatches, g.ProbedNonZeroWords} {
		if words != nil && *words > 0 {
			return VerdictNotClean
		}
	}
	// OverwriteVerified needs measured figures; the word alone proves nothing.
	measured := true
	for _, n := range []*uint64{g.CoveredBytes, g.MismatchedWords, g.RemainingWords, g.ReadBackBytes, g.ProbedBytes, g.ProbedNonZeroWords} {
		measured = measured && n != nil
	}
	measured = measured && *g.CoveredBytes > 0 && *g.ReadBackBytes > 0 && *g.ProbedBytes > 0
	if g.Code != "" || g.Assurance.Overwrite == OverwriteVerified && !measured {
		return VerdictInconclusive
	}
	return VerdictClean
}

// GPUExclusion is memory that the scrub left out.
type GPUExclusion struct {
	Reason string `json:"reason"`
	Bytes  uint64 `json:"bytes"`
}

// GPUHolder is a process that had a GPU open, with its outcome.
type GPUHolder struct {
	PID  int    `json:"pid"`
	Name string `json:"name,omitempty"`
	UID  uint32 `json:"uid"`
	// Via says how the process was found: open_device or library.
	Via string `json:"via"`
	// Namespace is set if the process is in another PID namespace than the agent.
	Namespace bool `json:"other_pid_namespace,omitempty"`
	// Outcome is kept, terminated (SIGTERM was enough), killed, stuck (the process outlived
	// SIGKILL), or unseen (the library lists the process and the machine does not).
	Outcome string `json:"outcome"`
	State   string `json:"state,omitempty"` // of a stuck process: D is uninterruptible sleep
}

// GPUInterrupted is a unit or setting that was stopped or changed during the scrub, and whether it
// was restored.
type GPUInterrupted struct {
	Unit    string `json:"unit"`
	PutBack bool   `json:"put_back"`
	Message string `json:"message,omitempty"`
}
