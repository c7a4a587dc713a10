package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

// gpuScrubPage shows what a GPU scrub did and proved. A figure that was not measured is a dash,
// never 0.
func gpuScrubPage(p *render.Page, r taskcatalog.GPUScrubResult) {
	p.Title("GPU scrub")
	p.Fields("verdict", string(r.Verdict), "overwrite", r.Assurance.Overwrite, "reset", r.Assurance.Reset)

	var units, wrong, resets, excluded, holders, settings [][]string
	for _, g := range r.GPUs {
		name := gpuName(g)
		units = append(units, []string{
			name, string(g.Verdict), g.Assurance.Overwrite, percent(g.CoveragePercent), number(g.ResidueWords), number(g.MismatchedWords),
			number(g.RemainingWords),
			number(g.ProbedNonZeroWords), g.Assurance.Reset, perSecond(g.FillRate), perSecond(g.VerifyRate), perSecond(g.MemsetRate),
			string(g.Code), g.Name,
		})
		if g.Code != "" || g.Message != "" {
			wrong = append(wrong, []string{name, g.Serial, g.UUID, string(g.Code), g.Message})
		}
		if len(g.ResetGroup) > 0 || len(g.ResetWitnesses) > 0 || g.LocalCleared != nil {
			local := ""
			if g.LocalCleared != nil && *g.LocalCleared {
				local = "cleared"
			}
			resets = append(resets, []string{
				name, g.Assurance.Reset, count(int64(len(g.ResetGroup))), local,
				strings.Join(g.ResetWitnesses, ", "),
			})
		}
		for _, e := range g.Excluded {
			excluded = append(excluded, []string{name, bytesText(&e.Bytes), e.Reason})
		}
		for _, h := range g.Holders {
			holders = append(holders, holderRow(name, h))
		}
		for _, d := range g.Deviations {
			settings = append(settings, []string{
				name, d.Setting, d.Want, d.Have, render.YesNo(d.NeedsReset),
				strings.TrimSpace(string(d.Code) + " " + d.Message),
			})
		}
	}
	resultTable(p, "GPUs (residue, mismatches, left and probe are words of 8 bytes; rates are GB/s)",
		[]render.Column{
			render.Keep("GPU"), render.Keep("VERDICT"), render.Main("OVERWRITE"), render.Main("COVERED"),
			render.Keep("RESIDUE"), render.Keep("MISMATCHES"), render.Keep("LEFT"), render.Main("PROBE"),
			render.Keep("RESET"), render.Aside("FILL"), render.Aside("VERIFY"), render.Aside("MEMSET"),
			render.Keep("CODE"), render.More("NAME"),
		}, units)
	resultTable(p, "What is wrong", []render.Column{
		render.Keep("GPU"), render.Main("SERIAL"), render.Aside("UUID"), render.Keep("CODE"), render.Keep("MESSAGE"),
	}, wrong)
	resultTable(p, "Who held a GPU", []render.Column{
		render.Keep("GPU"), render.Keep("PID"), render.Main("UID"), render.Keep("PROCESS"), render.Main("SEEN BY"),
		render.Keep("OUTCOME"),
	}, holders)
	resultTable(p, "Resets and registers", []render.Column{
		render.Keep("GPU"), render.Keep("RESET"), render.Main("GPUS AT ONCE"), render.Keep("REGISTERS"),
		render.Aside("WITNESSES"),
	}, resets)
	resultTable(p, "Settings that were not as wanted", render.Kept("GPU", "SETTING", "WANTED", "FOUND", "NEEDS RESET", "NOTE"), settings)
	resultTable(p, "Left out", render.Kept("GPU", "BYTES", "REASON"), excluded)

	stopped := [][]string{}
	for _, s := range r.Stopped {
		stopped = append(stopped, []string{s.Unit, render.YesNo(s.PutBack), s.Message})
	}
	resultTable(p, "Stopped for the time of the scrub", render.Kept("UNIT", "RUNS AGAIN", "MESSAGE"), stopped)
	stepTable(p, r.Steps)
}

func stepTable(p *render.Page, steps []taskcatalog.StepRecord) {
	rows := [][]string{}
	for _, s := range steps {
		took := (time.Duration(s.DurationMS) * time.Millisecond).String()
		rows = append(rows, []string{
			s.StepKind, s.HardwareMatch, s.ResolvedProfile, strconv.Itoa(s.AttemptNumber), string(s.Status), took,
			string(s.ErrorCode),
		})
	}
	resultTable(p, "Steps", []render.Column{
		render.Keep("STEP"), render.Main("RULE"), render.Main("RESOLVED TO"), render.More("ATTEMPT"),
		render.Keep("STATUS"), render.Aside("TOOK"), render.Keep("CODE"),
	}, rows)
}

func holderRow(name string, h taskcatalog.GPUHolder) []string {
	outcome := h.Outcome
	if h.State != "" {
		outcome += " in state " + h.State
	}
	process := h.Name
	if h.Namespace {
		process += " (another PID namespace)"
	}
	return []string{name, strconv.Itoa(h.PID), strconv.FormatUint(uint64(h.UID), 10), process, h.Via, outcome}
}

// gpuName is the name of a GPU in tables: its PCI address, or the uuid of an instance.
func gpuName(g taskcatalog.GPUScrubbed) string {
	if g.PCIAddress == "" || g.Parent != "" {
		return g.UUID
	}
	return g.PCIAddress
}

func number(n *uint64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatUint(*n, 10)
}

// percent rounds down, so that it never shows a value that was not reached.
func percent(v *float64) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%.2f%%", math.Floor(*v*100+1e-6)/100)
}

// perSecond writes bytes a second as GB/s.
func perSecond(n *uint64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%.1f", float64(*n)/1e9)
}
