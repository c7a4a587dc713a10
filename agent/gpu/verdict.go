package gpu

import (
	"fmt"

	"github.com/hostler/hostler/taskcatalog"
)

// Thresholds for a policy without its own; meeting either suffices. A driver keeps some memory in
// any case: the percentage applies to large GPUs, the bytes to any (see MeetsPolicy for small
// ones).
var (
	minCoverage  = map[string]float64{"nvidia": 98, "amd": 97}
	maxUncovered = uint64(2 << 30)
)

// Coverage is the share, in percent, of all memory less the driver's reserve.
func Coverage(m MemoryInfo, covered uint64) float64 {
	all := allocatable(m)
	if all == 0 {
		return 0
	}
	return 100 * float64(covered) / float64(all)
}

func allocatable(m MemoryInfo) uint64 {
	if m.Reserved == nil {
		return m.Total
	}
	return subtract(m.Total, *m.Reserved)
}

// MeetsPolicy reports whether the covered memory meets the policy.
func MeetsPolicy(vendor string, m MemoryInfo, covered uint64, p taskcatalog.GPUScrubPolicy) bool {
	percent, bytes := p.MinCoveragePercent, p.MaxUncoveredBytes
	if percent == 0 {
		percent = minCoverage[vendor]
	}
	if bytes == 0 {
		// Two gibibytes of a small GPU, or of an instance, are not "nearly all".
		bytes = min(maxUncovered, allocatable(m)/10)
	}
	return covered > 0 && (Coverage(m, covered) >= percent || subtract(allocatable(m), covered) <= bytes)
}

// JudgeMemory judges a scrub and the following probe of a device's memory: clean, or a code and a
// sentence that say why not.
func JudgeMemory(
	vendor string, s ScrubResult, p ProbeResult, policy taskcatalog.GPUScrubPolicy,
) (taskcatalog.Verdict, taskcatalog.Code, string) {
	switch {
	case s.MismatchedWords > 0 || s.ReadBackMismatches > 0 || s.RemainingWords > 0:
		return taskcatalog.VerdictNotClean, taskcatalog.CodeGPUResidue, fmt.Sprintf(
			"the overwrite did not succeed: %d words do not hold the pattern, %d words are not zero, the host read %d wrong words",
			s.MismatchedWords, s.RemainingWords, s.ReadBackMismatches)
	case p.NonZeroWords > 0 || p.ReadBackNonZero > 0:
		return taskcatalog.VerdictNotClean, taskcatalog.CodeGPUResidue, fmt.Sprintf(
			"the next tenant would see %d words that are not zero (the host read %d)", p.NonZeroWords, p.ReadBackNonZero)
	case !MeetsPolicy(vendor, s.Memory, s.CoveredBytes, policy):
		return taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUScrubIncomplete, fmt.Sprintf(
			"%.1f percent of the memory could be overwritten", Coverage(s.Memory, s.CoveredBytes))
	case !MeetsPolicy(vendor, p.Memory, p.CoveredBytes, policy):
		return taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUScrubIncomplete, fmt.Sprintf(
			"%.1f percent of the memory could be looked at afterwards", Coverage(p.Memory, p.CoveredBytes))
	}
	return taskcatalog.VerdictClean, "", ""
}

// JudgeFailure judges a device whose scrub or probe failed. A broken device is not clean, whatever
// its memory holds; after any other failure the verdict is inconclusive.
func JudgeFailure(err error) (taskcatalog.Verdict, taskcatalog.Code, string) {
	code := taskcatalog.CodeOf(err, CodeDriverFailed)
	message := taskcatalog.Clean(err.Error(), taskcatalog.MaxText)
	switch code {
	case CodeDeviceLost, CodeECCUncorrectable, CodeKernelFault:
		return taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHardwareFault, message
	case CodeDeviceMissing:
		return taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUMissing, message
	case CodeDeviceBusy:
		return taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHolderPresent, message
	}
	return taskcatalog.VerdictInconclusive, code, message
}
