package scrub

import (
	"fmt"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// judgeOverwrite notes what an overwrite measured. That it was verified says that
// every word was compared and none differed.
func (s *Scrub) judgeOverwrite(u *unit) {
	r, o := u.scrub, &u.out
	coverage := gpu.Coverage(r.Memory, r.CoveredBytes)
	o.TotalBytes, o.ReservedBytes, o.CoveredBytes, o.CoveragePercent = &r.Memory.Total, r.Memory.Reserved, &r.CoveredBytes, &coverage
	o.ResidueWords, o.MismatchedWords, o.RemainingWords = &r.ResidueWords, &r.MismatchedWords, &r.RemainingWords
	o.ReadBackBytes, o.ReadBackMismatches, o.ComparedOnGPU = &r.ReadBackBytes, &r.ReadBackMismatches, &r.ComparedOnGPU
	o.FillRate, o.VerifyRate, o.MemsetRate = r.FillRate, r.VerifyRate, r.MemsetRate
	for _, e := range r.Excluded {
		o.Excluded = append(o.Excluded, taskcatalog.GPUExclusion{Reason: e.Reason, Bytes: e.Bytes})
	}
	o.Assurance.Overwrite = taskcatalog.OverwriteUnverified
	if r.ReadBackBytes > 0 && r.MismatchedWords+r.RemainingWords+r.ReadBackMismatches == 0 {
		o.Assurance.Overwrite = taskcatalog.OverwriteVerified
	}
}

// judgeProbe judges the memory by the overwrite and by what a new process saw
// after it.
func (s *Scrub) judgeProbe(u *unit) {
	found := max(u.probe.NonZeroWords, u.probe.ReadBackNonZero)
	u.out.ProbedBytes, u.out.ProbedNonZeroWords = &u.probe.CoveredBytes, &found
	if u.scrub == nil {
		if found > 0 {
			u.worse(taskcatalog.VerdictNotClean, taskcatalog.CodeGPUResidue, "the next tenant would see %d words that are not zero", found)
		}
		return
	}
	if verdict, code, message := gpu.JudgeMemory(u.device.Vendor, *u.scrub, *u.probe, s.policy); verdict != taskcatalog.VerdictClean {
		u.worse(verdict, code, "%s", message)
	}
}

// judgeParents looks at what of a partitioned GPU is in none of its instances.
func (s *Scrub) judgeParents() {
	for _, units := range gpus(s.units) {
		g := units[0].facts
		if units[0].out.Parent == "" || g.MemoryBytes == nil {
			continue
		}
		var inside uint64
		for _, u := range units {
			if u.out.TotalBytes == nil {
				return
			}
			inside += *u.out.TotalBytes
		}
		m := gpu.MemoryInfo{Total: *g.MemoryBytes, Reserved: g.ReservedBytes}
		if !gpu.Enough(units[0].device.Vendor, m, inside, s.policy) {
			for _, u := range units {
				u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUScrubIncomplete,
					"only %.1f percent of GPU %s are in its instances (turn partitioning off, and scrub it whole)", gpu.Coverage(m, inside), g.UUID)
			}
		}
	}
}

// ranks of the words of an assurance, from the least.
var (
	overwriteRank = map[string]int{taskcatalog.OverwriteNone: 0, taskcatalog.OverwriteUnverified: 1, taskcatalog.OverwriteVerified: 2}
	resetRank     = map[string]int{
		taskcatalog.ResetNotTried: 0, taskcatalog.ResetRefused: 1, taskcatalog.ResetUnsupported: 2, taskcatalog.ResetUnproven: 3, taskcatalog.ResetProven: 4,
	}
	verdictRank = map[taskcatalog.Verdict]int{taskcatalog.VerdictClean: 0, taskcatalog.VerdictInconclusive: 1, taskcatalog.VerdictNotClean: 2}
)

// sum is the result of all units, with the verdict of the worst. err is why the
// plan ended early.
func (s *Scrub) sum(err error) (*taskcatalog.GPUScrubResult, taskcatalog.Report) {
	s.judgeParents()
	res := &taskcatalog.GPUScrubResult{
		Verdict: taskcatalog.VerdictClean, Steps: s.records, Stopped: s.stopped, GPUs: []taskcatalog.GPUScrubbed{},
		Assurance: taskcatalog.GPUAssurance{Overwrite: taskcatalog.OverwriteVerified, Reset: taskcatalog.ResetProven},
	}
	if len(s.units) == 0 {
		res.Assurance = taskcatalog.GPUAssurance{Overwrite: taskcatalog.OverwriteNone, Reset: taskcatalog.ResetNotTried}
	}
	for _, u := range s.units {
		o := &u.out
		unverified := o.Assurance.Overwrite != taskcatalog.OverwriteVerified && !s.policy.AllowUnverified
		switch {
		case o.Verdict != taskcatalog.VerdictClean:
		case err != nil:
			u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeOf(err, taskcatalog.CodeGPUScrubIncomplete), "the scrub ended early: %v", err)
		case unverified:
			u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUScrubIncomplete, "the overwrite was not verified")
		case s.policy.RequireReset && o.Assurance.Reset != taskcatalog.ResetProven:
			u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUResetUnproven, "the site's policy wants a proven reset, and it is %s", o.Assurance.Reset)
		}
		res.GPUs = append(res.GPUs, *o)
		if overwriteRank[o.Assurance.Overwrite] < overwriteRank[res.Assurance.Overwrite] {
			res.Assurance.Overwrite = o.Assurance.Overwrite
		}
		if resetRank[o.Assurance.Reset] < resetRank[res.Assurance.Reset] {
			res.Assurance.Reset = o.Assurance.Reset
		}
		if verdictRank[o.Verdict] > verdictRank[res.Verdict] {
			res.Verdict = o.Verdict
		}
	}
	for _, g := range s.missing {
		out := taskcatalog.GPUScrubbed{
			Vendor: g.Vendor, UUID: g.UUID, Serial: g.Serial, PCIAddress: g.PCIAddress, Name: g.Name,
			Verdict: taskcatalog.VerdictInconclusive, Code: taskcatalog.CodeGPUMissing, Message: "the GPU is in the node's baseline and its library does not list it",
			Assurance: taskcatalog.GPUAssurance{Overwrite: taskcatalog.OverwriteNone, Reset: taskcatalog.ResetNotTried},
		}
		res.GPUs = append(res.GPUs, out)
		res.Assurance = out.Assurance
		if res.Verdict == taskcatalog.VerdictClean {
			res.Verdict = taskcatalog.VerdictInconclusive
		}
	}
	if err != nil && res.Verdict == taskcatalog.VerdictClean {
		res.Verdict = taskcatalog.VerdictInconclusive
	}
	return res, report(res)
}

// report is the part that is signed as evidence besides the result's digest.
func report(res *taskcatalog.GPUScrubResult) taskcatalog.Report {
	r := taskcatalog.Report{Verdict: res.Verdict}
	for _, g := range res.GPUs {
		if g.Verdict == taskcatalog.VerdictClean {
			continue
		}
		subject := fmt.Sprintf("%s %s", g.PCIAddress, g.UUID)
		if g.Serial != "" {
			subject += " serial " + g.Serial
		}
		r.Find(taskcatalog.Finding{Check: taskcatalog.CheckGPU, Subject: subject, Detail: fmt.Sprintf("%s: %s", g.Code, g.Message), NextAction: nextAction(g.Code)})
	}
	return r
}

func nextAction(code taskcatalog.Code) string {
	switch code {
	case taskcatalog.CodeGPUUnexpected:
		return taskcatalog.ActionAcceptBaseline
	case taskcatalog.CodeGPUScrubIncomplete, taskcatalog.CodeGPUHolderPresent, taskcatalog.CodeGPUResetUnproven, taskcatalog.CodeGPUResidue:
		return taskcatalog.ActionGPUScrub
	}
	return taskcatalog.ActionReimage
}
