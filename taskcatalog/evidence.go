package taskcatalog

import (
	"slices"
	"time"
)

// Verdict is the result of a node's examination of itself. An examination that is incomplete never
// gives clean.
type Verdict string

// The verdicts.
const (
	VerdictClean        Verdict = "clean"
	VerdictNotClean     Verdict = "not_clean"
	VerdictInconclusive Verdict = "inconclusive"
)

// verdicts are ordered from the worst to the best.
var verdicts = []Verdict{VerdictNotClean, VerdictInconclusive, VerdictClean}

// Valid reports whether v is a known verdict.
func (v Verdict) Valid() bool { return slices.Contains(verdicts, v) }

// Better reports whether v is a better verdict than other. An invalid verdict ranks with the worst.
func (v Verdict) Better(other Verdict) bool {
	return slices.Index(verdicts, v) > max(slices.Index(verdicts, other), 0)
}

// Lesser returns the worse of two verdicts.
func Lesser(a, b Verdict) Verdict {
	if a.Better(b) {
		return b
	}
	return a
}

// Bounds of one piece of evidence. Findings and dispositions beyond the bounds are counted, not
// listed.
const (
	MaxFindings     = 500
	MaxDispositions = 1000
	MaxText         = 1024 // bytes of any one reported string
)

// Evidence is what the node key signs about one run of one task: architecture chapter 4. Evidence
// names paths, uids, counts and digests, never a tenant's file contents, argv or environment.
type Evidence struct {
	TaskID       string    `json:"task_id"`
	TaskDigest   string    `json:"task_digest"` // sha256:… of the task envelope's bytes
	NodeID       string    `json:"node_id"`
	NodeEpoch    int64     `json:"node_epoch"`
	BootID       string    `json:"boot_id"`
	Nonce        string    `json:"nonce"`
	StartedAt    time.Time `json:"started_at"`
	FinishedAt   time.Time `json:"finished_at"`
	AgentVersion string    `json:"agent_version"`
	Outcome      Outcome   `json:"outcome"`
	Code         Code      `json:"code,omitempty"`
	ResultDigest string    `json:"result_digest,omitempty"` // sha256:… of the result's JSON
	Report
}

// Report is the part of the evidence that a task handler fills.
type Report struct {
	Verdict             Verdict       `json:"verdict,omitempty"`
	Findings            []Finding     `json:"findings,omitempty"`
	FindingsOmitted     int           `json:"findings_omitted,omitempty"`
	Dispositions        []Disposition `json:"dispositions,omitempty"`
	DispositionsOmitted int           `json:"dispositions_omitted,omitempty"`
	Checks              []Check       `json:"checks,omitempty"`
}

// Finding is one thing that a clean node does not have.
type Finding struct {
	Check   string  `json:"check"`   // name of a row in the table of checks
	Subject string  `json:"subject"` // a path, a unit, a port, a pid with its name
	Detail  string  `json:"detail,omitempty"`
	UID     *uint32 `json:"uid,omitempty"`
	Count   int64   `json:"count,omitempty"`
	// NextAction names the remedy: "node.storage_cleanup", "allocation.revoke_user", "reimage",
	// "accept_baseline", "by_hand".
	NextAction string `json:"next_action,omitempty"`
}

// Actions on a path or an object.
const (
	ActionRemoved = "removed"
	ActionEmptied = "emptied"
	ActionKept    = "kept"
	ActionSkipped = "skipped"
	ActionFailed  = "failed"
)

// Disposition is what happened to one path or object.
type Disposition struct {
	Check  string `json:"check"`
	Path   string `json:"path"`
	Action string `json:"action"`
	Files  int64  `json:"files,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Check says whether one row of the table of checks was examined.
type Check struct {
	Name   string `json:"name"`
	Made   bool   `json:"made"`
	Reason string `json:"reason,omitempty"` // why the row was not examined, or does not apply
	// NotApplicable: the row was examined, and neither the machine nor the baseline has anything of
	// the kind.
	NotApplicable bool `json:"not_applicable,omitzero"`
}

// Find adds a finding within the bounds, with cleaned text.
func (r *Report) Find(f Finding) {
	if len(r.Findings) >= MaxFindings {
		r.FindingsOmitted++
		return
	}
	f.Subject, f.Detail = Clean(f.Subject, MaxText), Clean(f.Detail, MaxText)
	r.Findings = append(r.Findings, f)
}

// Dispose adds a disposition within the bounds, with cleaned text.
func (r *Report) Dispose(d Disposition) {
	if len(r.Dispositions) >= MaxDispositions {
		r.DispositionsOmitted++
		return
	}
	d.Path, d.Reason = Clean(d.Path, MaxText), Clean(d.Reason, MaxText)
	r.Dispositions = append(r.Dispositions, d)
}

// Judge sets the verdict from the findings and the checks. Any finding gives not_clean. Without
// findings, a row that was not examined or is missing gives inconclusive.
func (r *Report) Judge() {
	open := map[string]bool{}
	for _, name := range LookedAt() {
		open[name] = true
	}
	for _, c := range r.Checks {
		if c.Made {
			delete(open, c.Name)
		}
	}
	r.Verdict = VerdictClean
	if len(open) > 0 || slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.Made }) {
		r.Verdict = VerdictInconclusive
	}
	if len(r.Findings)+r.FindingsOmitted > 0 {
		r.Verdict = VerdictNotClean
	}
}
