package gpu

import "github.com/hostler/hostler/taskcatalog"

// Phases of a scrub. A probe has only take.
const (
	PhaseTake   = "take"
	PhaseFill   = "fill"
	PhaseVerify = "verify"
	PhaseZero   = "zero"
	PhaseCheck  = "check"
)

// Progress is how far a pass over a device's memory is.
type Progress struct {
	Phase      string `json:"phase"`
	DoneBytes  uint64 `json:"done_bytes"`
	TotalBytes uint64 `json:"total_bytes"`
}

// Exclusion is memory that was not verified.
type Exclusion = taskcatalog.GPUExclusion

// Reasons for leaving memory out of a scrub.
const (
	ReservedByDriver = "reserved_by_driver" // as reported by the driver
	NotFree          = "not_free"           // contexts, the helper's included, and memory held by other processes
	NotAllocatable   = "not_allocatable"    // free, but not available in pieces of 2 MiB
	NotAskedFor      = "not_asked_for"      // left free on purpose, by a probe of a part
)

// ScrubResult is the outcome of a scrub of a device, as measured by the scrub.
type ScrubResult struct {
	Memory MemoryInfo `json:"memory"` // before anything was taken
	Chunks int        `json:"chunks"`
	// CoveredBytes were filled, compared, cleared and checked.
	CoveredBytes uint64      `json:"covered_bytes"`
	Excluded     []Exclusion `json:"excluded"`
	// ResidueWords were not zero when the memory was taken. A word is always 8 bytes.
	ResidueWords    uint64 `json:"residue_words"`
	MismatchedWords uint64 `json:"mismatched_words"` // differ from the written pattern
	RemainingWords  uint64 `json:"remaining_words"`  // not zero after the last pass
	// ReadBackBytes were read by the host at random places, after the pattern and after the zeros;
	// ReadBackMismatches of the words were wrong.
	ReadBackBytes      uint64 `json:"read_back_bytes"`
	ReadBackMismatches uint64 `json:"read_back_mismatches"`
	ComparedOnGPU      bool   `json:"compared_on_gpu"`
	// Rates in bytes per second: of writing the pattern, of comparing it, and of the plain memset.
	// Nil if the time was too short to measure.
	FillRate   *uint64 `json:"fill_rate,omitempty"`
	VerifyRate *uint64 `json:"verify_rate,omitempty"`
	MemsetRate *uint64 `json:"memset_rate,omitempty"`
}

// ProbeResult is a new process's view of the memory it gets.
type ProbeResult struct {
	Memory        MemoryInfo  `json:"memory"`
	Chunks        int         `json:"chunks"`
	CoveredBytes  uint64      `json:"covered_bytes"` // looked at
	Excluded      []Exclusion `json:"excluded"`
	NonZeroWords  uint64      `json:"non_zero_words"`
	ReadBackBytes uint64      `json:"read_back_bytes"`
	// ReadBackNonZero counts the non-zero words read by the host: if NonZeroWords is 0 and this is
	// not, the counting on the GPU is wrong.
	ReadBackNonZero uint64 `json:"read_back_non_zero"`
	ComparedOnGPU   bool   `json:"compared_on_gpu"`
}
