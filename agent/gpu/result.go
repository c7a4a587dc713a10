package gpu

import "github.com/hostler/hostler/taskcatalog"

// Phases of a scrub, and of a probe, which is take alone.
const (
	PhaseTake   = "take"
	PhaseFill   = "fill"
	PhaseVerify = "verify"
	PhaseZero   = "zero"
	PhaseCheck  = "check"
)

// Progress is how far one pass over a device's memory is.
type Progress struct {
	Phase      string `json:"phase"`
	DoneBytes  uint64 `json:"done_bytes"`
	TotalBytes uint64 `json:"total_bytes"`
}

// Exclusion is memory that was not verified.
type Exclusion = taskcatalog.GPUExclusion

// Why memory is left out of a scrub.
const (
	ReservedByDriver = "reserved_by_driver" // by the driver's own word
	NotFree          = "not_free"           // contexts, ours among them, and what other processes hold
	NotAllocatable   = "not_allocatable"    // free, and not to be had in pieces of 2 MiB
	NotAskedFor      = "not_asked_for"      // left free on purpose, by a probe of a part
)

// ScrubResult is what a scrub did to one device, by its own measurement.
type ScrubResult struct {
	Memory MemoryInfo `json:"memory"` // before anything was taken
	Chunks int        `json:"chunks"`
	// CoveredBytes were filled, compared, cleared and looked at again.
	CoveredBytes uint64      `json:"covered_bytes"`
	Excluded     []Exclusion `json:"excluded"`
	// ResidueWords were not zero when the memory was taken: what was left in it.
	// A word is 8 bytes, everywhere.
	ResidueWords    uint64 `json:"residue_words"`
	MismatchedWords uint64 `json:"mismatched_words"` // not the pattern that was written
	RemainingWords  uint64 `json:"remaining_words"`  // not zero after the last pass
	// The host read this much at random places, after the pattern and after the
	// zeros, and found so many words wrong.
	ReadBackBytes      uint64 `json:"read_back_bytes"`
	ReadBackMismatches uint64 `json:"read_back_mismatches"`
	ComparedOnGPU      bool   `json:"compared_on_gpu"`
	// Bytes per second: of the pattern written, of it compared, and of the plain
	// memset that cleared it. Nil where it took no time that can be measured.
	FillRate   *uint64 `json:"fill_rate,omitempty"`
	VerifyRate *uint64 `json:"verify_rate,omitempty"`
	MemsetRate *uint64 `json:"memset_rate,omitempty"`
}

// ProbeResult is what a new process finds in the memory that it gets.
type ProbeResult struct {
	Memory        MemoryInfo  `json:"memory"`
	Chunks        int         `json:"chunks"`
	CoveredBytes  uint64      `json:"covered_bytes"` // looked at
	Excluded      []Exclusion `json:"excluded"`
	NonZeroWords  uint64      `json:"non_zero_words"`
	ReadBackBytes uint64      `json:"read_back_bytes"`
	// ReadBackNonZero are words that the host read and found not zero: more than
	// none where NonZeroWords says none means that the counting lies.
	ReadBackNonZero uint64 `json:"read_back_non_zero"`
	ComparedOnGPU   bool   `json:"compared_on_gpu"`
}
