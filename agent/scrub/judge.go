package scrub

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/facts"
	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// judgeOverwrite records the figures of an overwrite. Verified means that every word was compared
// and none differed.
func (s *Scrub) judgeOverwrite(u *unit) {
	r, o := u.scrub, &u.out
	m := u.memory(r.Memory)
	coverage := gpu.Coverage(m, r.CoveredBytes)
	o.TotalBytes, o.ReservedBytes, o.CoveredBytes, o.CoveragePercent = &m.Total, m.Reserved, &r.CoveredBytes, &coverage
	residue := r.ResidueWords + u.residue
	o.ResidueWords, o.MismatchedWords, o.RemainingWords = &residue, &r.MismatchedWords, &r.RemainingWords
	o.ReadBackBytes, o.ReadBackMismatches, o.ComparedOnGPU = &r.ReadBackBytes, &r.ReadBackMismatches, &r.ComparedOnGPU
	o.FillRate, o.VerifyRate, o.MemsetRate = r.FillRate, r.VerifyRate, r.MemsetRate
	for _, e := range r.Excluded {
		o.Excluded = append(o.Excluded, taskcatalog.GPUExclusion(e))
	}
	o.Assurance.Overwrite = taskcatalog.OverwriteUnverified
	if r.ReadBackBytes > 0 && r.MismatchedWords+r.RemainingWords+r.ReadBackMismatches == 0 {
		o.Assurance.Overwrite = taskcatalog.OverwriteVerified
	}
}

// probeShare is the share, in percent, of the overwritten memory that a probe must see. The
// difference allows for one more process context.
const probeShare = 98

// judgeProbe judges the memory by the overwrite and by what a new process saw afterwards.
func (s *Scrub) judgeProbe(u *unit) {
	probe := *u.probe
	found := max(probe.NonZeroWords, probe.ReadBackNonZero)
	u.out.ProbedBytes, u.out.ProbedNonZeroWords = &probe.CoveredBytes, &found
	probe.Memory = u.memory(probe.Memory)
	var written gpu.ScrubResult
	if u.scrub != nil {
		written = *u.scrub
		written.Memory = u.memory(written.Memory)
	} else {
		// A command overwrote, and measured nothing: only the probe says how much memory there is.
		written.Memory, written.CoveredBytes = probe.Memory, probe.CoveredBytes
	}
	if verdict, code, message := gpu.JudgeMemory(u.device.Vendor, written, probe, s.policy); verdict != taskcatalog.VerdictClean {
		u.worse(verdict, code, "%s", message)
	}
	if probe.CoveredBytes < written.CoveredBytes/100*probeShare {
		u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUScrubIncomplete,
			"%d bytes were overwritten and only %d could be looked at afterwards", written.CoveredBytes, probe.CoveredBytes)
	}
}

// judgeParents judges the memory of each partitioned GPU that is in none of its instances.
func (s *Scrub) judgeParents() {
	for _, units := range gpus(s.units) {
		g := units[0].facts
		if units[0].out.Parent == "" {
			continue
		}
		unsure := func(format string, args ...any) {
			for _, u := range units {
				u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUScrubIncomplete, format, args...)
			}
		}
		all := deref(g.MemoryBytes)
		if want := units[0].want; want != nil {
			all = max(all, deref(want.MemoryBytes))
		}
		if all == 0 {
			unsure("GPU %s does not report how much of its memory belongs to no instance", g.UUID)
			continue
		}
		var inside uint64
		unknown := ""
		for _, u := range units {
			if u.out.TotalBytes == nil {
				unknown = u.device.UUID
			}
			inside += deref(u.out.TotalBytes)
		}
		m := gpu.MemoryInfo{Total: all, Reserved: units[0].reserve(g.ReservedBytes)}
		switch {
		case unknown != "":
			unsure("instance %s of GPU %s was not measured", unknown, g.UUID)
		case !gpu.MeetsPolicy(units[0].device.Vendor, m, inside, s.policy):
			unsure("only %.1f percent of GPU %s are in its instances (turn partitioning off, then scrub the whole GPU)",
				gpu.Coverage(m, inside), g.UUID)
		}
	}
}

// Ranks of the words of an assurance, ascending.
var (
	overwriteRank = map[string]int{taskcatalog.OverwriteNone: 0, taskcatalog.OverwriteUnverified: 1, taskcatalog.OverwriteVerified: 2}
	resetRank     = map[string]int{
		taskcatalog.ResetNotTried: 0, taskcatalog.ResetRefused: 1, taskcatalog.ResetUnsupported: 2, taskcatalog.ResetUnproven: 3,
		taskcatalog.ResetProven: 4,
	}
)

// sum returns the result of all units, with the verdict of the worst. err is why the plan ended
// early.
func (s *Scrub) sum(err error) (*taskcatalog.GPUScrubResult, taskcatalog.Report) {
	s.judgeParents()
	res := &taskcatalog.GPUScrubResult{
		Verdict: taskcatalog.VerdictClean, Steps: s.records, Stopped: s.stopped, GPUs: []taskcatalog.GPUScrubbed{},
		Assurance: taskcatalog.GPUAssurance{Overwrite: taskcatalog.OverwriteVerified, Reset: taskcatalog.ResetProven},
	}
	if len(s.units) == 0 {
		s.note(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUMissing, "node", "no GPU was found, so none was scrubbed")
		res.Assurance = taskcatalog.GPUAssurance{Overwrite: taskcatalog.OverwriteNone, Reset: taskcatalog.ResetNotTried}
	}
	for _, u := range s.units {
		o := &u.out
		unverified := o.Assurance.Overwrite != taskcatalog.OverwriteVerified && !s.policy.AllowUnverified
		switch {
		case o.Verdict != taskcatalog.VerdictClean:
		case err != nil:
			u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeOf(err, taskcatalog.CodeGPUScrubIncomplete),
				"the scrub ended early: %v", err)
		case unverified:
			u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUScrubIncomplete, "the overwrite was not verified")
		case s.policy.RequireReset && o.Assurance.Reset != taskcatalog.ResetProven:
			code, why := taskcatalog.CodeGPUResetUnproven, ""
			if o.Assurance.Reset == taskcatalog.ResetRefused {
				code, why = taskcatalog.CodeGPUResetRefused, ": "+u.refused
			}
			u.worse(taskcatalog.VerdictInconclusive, code, "the site's policy requires a proven reset, and the reset is %s%s",
				o.Assurance.Reset, why)
		}
		res.GPUs = append(res.GPUs, *o)
		if overwriteRank[o.Assurance.Overwrite] < overwriteRank[res.Assurance.Overwrite] {
			res.Assurance.Overwrite = o.Assurance.Overwrite
		}
		if resetRank[o.Assurance.Reset] < resetRank[res.Assurance.Reset] {
			res.Assurance.Reset = o.Assurance.Reset
		}
		res.Verdict = taskcatalog.Lesser(res.Verdict, o.Verdict)
	}
	none := taskcatalog.GPUAssurance{Overwrite: taskcatalog.OverwriteNone, Reset: taskcatalog.ResetNotTried}
	for _, g := range s.missing {
		res.GPUs = append(res.GPUs, taskcatalog.GPUScrubbed{
			Vendor: g.Vendor, UUID: g.UUID, Serial: g.Serial, PCIAddress: g.PCIAddress, Name: g.Name, Assurance: none,
			Verdict: taskcatalog.VerdictInconclusive, Code: taskcatalog.CodeGPUMissing,
			Message: "the GPU is in the node's baseline, and its vendor library does not list it",
		})
	}
	for _, d := range s.unlisted {
		res.GPUs = append(res.GPUs, taskcatalog.GPUScrubbed{
			Vendor: facts.GPUVendor(d), PCIAddress: d.Address, Assurance: none, Verdict: taskcatalog.VerdictNotClean, Code: codeGPUUnlisted,
			Message: fmt.Sprintf("the GPU, PCI id %s:%s, is on the bus, and no vendor library lists it (driver %q)", d.Vendor, d.Device,
				d.Driver),
		})
	}
	for _, g := range res.GPUs[len(s.units):] {
		res.Assurance, res.Verdict = none, taskcatalog.Lesser(res.Verdict, g.Verdict)
	}
	for _, n := range s.notes {
		res.Verdict = taskcatalog.Lesser(res.Verdict, n.verdict)
	}
	if err != nil {
		res.Verdict = taskcatalog.Lesser(res.Verdict, taskcatalog.VerdictInconclusive)
	}
	return res, s.report(res)
}

// codeGPUUnlisted is the code of a GPU on the bus whose memory is inaccessible.
const codeGPUUnlisted taskcatalog.Code = "gpu_unlisted"

// note is a fault of the node rather than of a single GPU.
type note struct {
	verdict taskcatalog.Verdict
	finding taskcatalog.Finding
}

func (s *Scrub) note(v taskcatalog.Verdict, code taskcatalog.Code, subject, format string, args ...any) {
	s.notes = append(s.notes, note{v, taskcatalog.Finding{
		Check: taskcatalog.CheckGPU, Subject: subject, Detail: fmt.Sprintf("%s: %s", code, fmt.Sprintf(format, args...)),
		NextAction: nextAction(code),
	}})
}

// report is the part signed as evidence in addition to the result's digest.
func (s *Scrub) report(res *taskcatalog.GPUScrubResult) taskcatalog.Report {
	r := taskcatalog.Report{Verdict: res.Verdict}
	for _, n := range s.notes {
		r.Find(n.finding)
	}
	for _, g := range res.GPUs {
		if g.Verdict == taskcatalog.VerdictClean {
			continue
		}
		subject := strings.TrimSpace(g.PCIAddress + " " + g.UUID)
		if g.Serial != "" {
			subject += " serial " + g.Serial
		}
		r.Find(taskcatalog.Finding{
			Check: taskcatalog.CheckGPU, Subject: subject, Detail: fmt.Sprintf("%s: %s", g.Code, g.Message),
			NextAction: nextActionOn(g),
		})
	}
	return r
}

// nextActionOn returns the action that repairs a GPU. A process that outlived SIGKILL would outlive
// another scrub as well.
func nextActionOn(g taskcatalog.GPUScrubbed) string {
	if slices.ContainsFunc(g.Holders, func(h taskcatalog.GPUHolder) bool { return h.Outcome == "stuck" }) {
		return taskcatalog.ActionReimage
	}
	return nextAction(g.Code)
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
