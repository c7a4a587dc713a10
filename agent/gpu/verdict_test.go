package gpu

import (
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

func TestMemoryIsCleanOnlyIfAllWasVerifiedAndNothingIsLeft(t *testing.T) {
	const gib = 1 << 30
	reserved := uint64(gib)
	big := MemoryInfo{Total: 81 * gib, Free: 80 * gib, Reserved: &reserved}
	small := MemoryInfo{Total: 2 * gib, Free: gib, Reserved: &reserved}
	scrubbed := func(m MemoryInfo, covered uint64) ScrubResult { return ScrubResult{Memory: m, CoveredBytes: covered} }
	probed := func(m MemoryInfo, covered uint64) ProbeResult { return ProbeResult{Memory: m, CoveredBytes: covered} }
	good := scrubbed(big, 79*gib)
	with := func(change func(*ScrubResult)) ScrubResult {
		s := good
		change(&s)
		return s
	}
	cases := map[string]struct {
		s      ScrubResult
		p      ProbeResult
		policy taskcatalog.GPUScrubPolicy
		want   taskcatalog.Verdict
		code   taskcatalog.Code
	}{
		"all of it":                      {good, probed(big, 79*gib), taskcatalog.GPUScrubPolicy{}, "clean", ""},
		"a word differs":                 {with(func(s *ScrubResult) { s.MismatchedWords = 1 }), probed(big, 79*gib), taskcatalog.GPUScrubPolicy{}, "not_clean", "gpu_residue"},
		"a word remains":                 {with(func(s *ScrubResult) { s.RemainingWords = 1 }), probed(big, 79*gib), taskcatalog.GPUScrubPolicy{}, "not_clean", "gpu_residue"},
		"the host reads another word":    {with(func(s *ScrubResult) { s.ReadBackMismatches = 1 }), probed(big, 79*gib), taskcatalog.GPUScrubPolicy{}, "not_clean", "gpu_residue"},
		"the next tenant sees a word":    {good, ProbeResult{Memory: big, CoveredBytes: 79 * gib, NonZeroWords: 1}, taskcatalog.GPUScrubPolicy{}, "not_clean", "gpu_residue"},
		"the next tenant reads a word":   {good, ProbeResult{Memory: big, CoveredBytes: 79 * gib, ReadBackNonZero: 1}, taskcatalog.GPUScrubPolicy{}, "not_clean", "gpu_residue"},
		"residue before is no fault":     {with(func(s *ScrubResult) { s.ResidueWords = 5 }), probed(big, 79*gib), taskcatalog.GPUScrubPolicy{}, "clean", ""},
		"too little overwritten":         {scrubbed(big, 70*gib), probed(big, 79*gib), taskcatalog.GPUScrubPolicy{}, "inconclusive", "gpu_scrub_incomplete"},
		"too little looked at":           {good, probed(big, 70*gib), taskcatalog.GPUScrubPolicy{}, "inconclusive", "gpu_scrub_incomplete"},
		"nothing at all, of a small one": {scrubbed(small, 0), probed(small, 0), taskcatalog.GPUScrubPolicy{}, "inconclusive", "gpu_scrub_incomplete"},
		"half of a small one":            {scrubbed(small, gib/2), probed(small, gib/2), taskcatalog.GPUScrubPolicy{}, "inconclusive", "gpu_scrub_incomplete"},
		"a site that asks for less":      {scrubbed(big, 70*gib), probed(big, 70*gib), taskcatalog.GPUScrubPolicy{MinCoveragePercent: 80}, "clean", ""},
		"a site that asks for more":      {good, probed(big, 79*gib), taskcatalog.GPUScrubPolicy{MinCoveragePercent: 99.9, MaxUncoveredBytes: 1}, "inconclusive", "gpu_scrub_incomplete"},
	}
	for name, c := range cases {
		if verdict, code, why := JudgeMemory("nvidia", c.s, c.p, c.policy); verdict != c.want || code != c.code || (why == "") != (code == "") {
			t.Errorf("%s: %s %s %q, want %s %s", name, verdict, code, why, c.want, c.code)
		}
	}
}

func TestABrokenDeviceIsNotCleanAndASilentOneUnknown(t *testing.T) {
	for code, want := range map[taskcatalog.Code]taskcatalog.Verdict{
		CodeDeviceLost: "not_clean", CodeECCUncorrectable: "not_clean", CodeKernelFault: "not_clean",
		CodeHelperHung: "inconclusive", CodeHelperCrashed: "inconclusive", CodeHelperStuck: "inconclusive",
		CodeDeviceMissing: "inconclusive", CodeFabricNotReady: "inconclusive", CodeLibraryMissing: "inconclusive",
	} {
		if verdict, _, _ := JudgeFailure(taskcatalog.Errorf(code, "x")); verdict != want {
			t.Errorf("%s is %s, want %s", code, verdict, want)
		}
	}
}
