package taskqueue

import (
	"encoding/json"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// verdictOf is the node's verdict, or a worse verdict if its own findings and checks say so: a
// missing row of the table counts as not inspected. Only a comparing validation has a verdict,
// and only a successful validation can be clean.
func verdictOf(k broker.Task, r wire.ResultRequest, report taskcatalog.Report) (taskcatalog.Verdict, error) {
	if k.Type == "node.gpu_scrub" {
		return scrubVerdict(k, r, report)
	}
	if err := rowsOf(k, report.Checks); err != nil {
		return "", err
	}
	compares, err := comparesBaseline(k, r, report.Verdict)
	if err != nil {
		return "", err
	}
	said := report.Verdict
	switch {
	case said == "" && compares && r.Outcome == taskcatalog.OutcomeSucceeded:
		return "", untrustedEvidence(k, "evidence_verdict", "the task succeeded without a verdict")
	case said == "":
		return "", nil
	case !compares:
		return "", untrustedEvidence(k, "evidence_verdict", "the result has a verdict, and tasks of this type have none")
	}
	if !said.Valid() {
		return "", untrustedEvidence(k, "evidence_verdict", "the result has an unknown verdict")
	}
	report.Judge()
	worst := taskcatalog.Lesser(report.Verdict, said)
	if worst == taskcatalog.VerdictClean && r.Outcome != taskcatalog.OutcomeSucceeded {
		worst = taskcatalog.VerdictInconclusive
	}
	return worst, nil
}

// rowsOf refuses checks outside the table, duplicate rows, which may contradict each other, and a
// row marked as not applicable that always applies.
func rowsOf(k broker.Task, checks []taskcatalog.Check) error {
	untold := map[string]bool{}
	for _, name := range taskcatalog.LookedAt() {
		untold[name] = true
	}
	for _, c := range checks {
		if !untold[c.Name] {
			return untrustedEvidence(k, "evidence_checks", "the result lists twice, or under a wrong name, the check "+c.Name)
		}
		delete(untold, c.Name)
		if c.NotApplicable && (!c.Made || !slices.Contains(taskcatalog.PlatformChecks(), c.Name)) {
			return untrustedEvidence(k, "evidence_checks", "the result states that the check "+c.Name+
				" does not apply, and the check applies")
		}
	}
	return nil
}

// comparesBaseline reports whether a task compares the node with its baseline, and refuses a result
// whose verdict differs from the evidence.
func comparesBaseline(k broker.Task, r wire.ResultRequest, said taskcatalog.Verdict) (compares bool, err error) {
	if k.Type != "node.validate_clean" {
		return false, nil
	}
	var asked taskcatalog.ValidateCleanParams
	if err := json.Unmarshal(k.Params, &asked); err != nil {
		return false, err
	}
	if len(r.Result) > 0 && string(r.Result) != "null" {
		var sum taskcatalog.ValidateCleanResult
		if err := taskcatalog.DecodeStrict(r.Result, &sum); err != nil {
			return false, err
		}
		if sum.Verdict != said {
			return false, untrustedEvidence(k, "evidence_verdict", "the evidence's verdict differs from the result's verdict")
		}
	}
	return !asked.TakeBaseline, nil
}
