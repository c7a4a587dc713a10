package certificate

import (
	"slices"

	"github.com/hostler/hostler/taskcatalog"
)

// GPUs returns the rows of a GPU scrub: a row for each unit in the result, and for each GPU of
// the baseline without a unit in the result. report is the summary that the node signed with the
// result. The caller may lower a verdict but never raise one.
func GPUs(taskID string, expected []taskcatalog.BaselineGPU, r taskcatalog.GPUScrubResult, report taskcatalog.Report) []Device {
	rows := measured(taskID, r, report)
	for i := range rows {
		rows[i].Expected = slices.ContainsFunc(expected, func(e taskcatalog.BaselineGPU) bool {
			return e.UUID == rows[i].UUID || e.UUID == rows[i].Parent || slices.Contains(e.Instances, rows[i].UUID)
		})
	}
	for _, e := range expected {
		if !slices.ContainsFunc(rows, func(d Device) bool { return d.UUID == e.UUID || d.Parent == e.UUID }) {
			rows = append(rows, Device{
				Kind: KindGPU, UUID: e.UUID, Serial: e.Serial, Model: e.Name, Expected: true,
				Method: MethodNone, Verification: taskcatalog.OverwriteNone, Exclusions: []Exclusion{},
				Verdict: taskcatalog.VerdictInconclusive, Code: taskcatalog.CodeGPUMissing, TaskID: taskID,
			})
		}
	}
	return rows
}

// measured returns the rows of the units in a result. No row is better than its own figures. No
// row is clean if the node signed a verdict for the whole below the worst unit, or findings that
// no unit explains.
func measured(taskID string, r taskcatalog.GPUScrubResult, report taskcatalog.Report) []Device {
	rows := make([]Device, 0, len(r.GPUs))
	worst := taskcatalog.VerdictClean
	for _, g := range r.GPUs {
		worst = taskcatalog.Lesser(worst, taskcatalog.Lesser(g.Verdict, g.Figures()))
	}
	unexplained := worst == taskcatalog.VerdictClean && len(report.Findings)+report.FindingsOmitted > 0
	doubted := worst.Better(report.Verdict) || unexplained
	for _, g := range r.GPUs {
		d := Device{
			Kind: KindGPU, Serial: g.Serial, UUID: g.UUID, Parent: g.Parent, Model: g.Name,
			Found:  g.Code != taskcatalog.CodeGPUMissing,
			Method: MethodOverwrite, Verification: g.Assurance.Overwrite, Reset: g.Assurance.Reset,
			CoveredBytes: g.CoveredBytes, Exclusions: []Exclusion{},
			Verdict: g.Verdict, Code: g.Code, Message: g.Message, TaskID: taskID,
		}
		switch {
		case g.Verdict.Better(g.Figures()):
			d.Verdict, d.Code, d.Message = g.Figures(), taskcatalog.CodeGPUScrubIncomplete, "its own figures say less than its verdict"
		case doubted && g.Verdict == taskcatalog.VerdictClean:
			d.Verdict, d.Code, d.Message = taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUScrubIncomplete,
				"the node has signed of the scrub as a whole that it is not clean"
		}
		if g.Assurance.Overwrite == taskcatalog.OverwriteNone || g.Assurance.Overwrite == "" {
			d.Method, d.Verification = MethodNone, taskcatalog.OverwriteNone
		}
		if g.TotalBytes != nil {
			of := *g.TotalBytes
			if g.ReservedBytes != nil {
				of -= min(of, *g.ReservedBytes)
			}
			d.OfBytes = &of
		}
		for _, e := range g.Excluded {
			d.Exclusions = append(d.Exclusions, Exclusion{Reason: e.Reason, Bytes: e.Bytes})
		}
		rows = append(rows, d)
	}
	return rows
}
