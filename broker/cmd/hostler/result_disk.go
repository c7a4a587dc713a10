package main

import (
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

// diskErasePage shows what was done to each disk, the grade of the method, and the methods tried
// without success.
func diskErasePage(p *render.Page, r taskcatalog.DiskEraseResult) {
	var disks, tried [][]string
	for i := range r.Disks {
		d := &r.Disks[i]
		less := ""
		if _, yes := d.Downgraded(); yes {
			less = "less than " + string(d.Asked)
		}
		disks = append(disks, []string{
			d.Name, d.Serial, string(d.Verdict), string(d.Method), string(d.Method.Grade()), d.Verification, bytesText(&d.CoveredBytes),
			bytesText(&d.OfBytes), less, string(d.Code), d.Message,
		})
		for _, a := range d.Attempts {
			tried = append(tried, []string{d.Name, string(a.Method), string(a.Code), a.Message})
		}
	}
	resultTable(p, "Disks", []render.Column{
		render.Keep("DISK"), render.Keep("SERIAL"), render.Keep("VERDICT"), render.Main("METHOD"),
		render.Keep("GRADE"), render.More("VERIFICATION"), render.More("COVERED"), render.More("OF"),
		render.Keep("DOWNGRADE"), render.Keep("CODE"), render.Keep("MESSAGE"),
	}, disks)
	resultTable(p, "Tried and not done", render.Kept("DISK", "METHOD", "CODE", "MESSAGE"), tried)
}
