package certificate_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/taskcatalog"
)

// compared is a turnover whose last inspection has this row of the agent.
func (w *world) compared(where certificate.Environment, row taskcatalog.Check, found ...taskcatalog.Finding) *certificate.Clean {
	w.t.Helper()
	c := w.clean(gpu("GPU-1", "1650001"))
	c.Environment, c.Policy.RootNeedsFreshOS = where, false
	report := taskcatalog.Report{Verdict: taskcatalog.VerdictClean, Checks: looked(row), Findings: found}
	c.Validation.ChecksMade = len(report.Checks)
	if !row.Made {
		c.Validation.ChecksMade, c.Validation.ChecksNotMade = len(report.Checks)-1, []taskcatalog.Check{row}
		report.Verdict = taskcatalog.VerdictInconclusive
	}
	if len(found) > 0 {
		report.Verdict = taskcatalog.VerdictNotClean
	}
	c.Validation.Verdict, c.Findings = report.Verdict, found
	c.Tasks[2] = w.prove("t-validate", "node.validate_clean", w.now.Add(-40*time.Minute), report, nil)
	return c
}

func TestTheAgentsRowCountsInAFreshSystemAndAFindingAnywhere(t *testing.T) {
	w := newWorld(t)
	made := taskcatalog.Check{Name: taskcatalog.CheckAgent, Made: true}
	not := taskcatalog.Check{Name: taskcatalog.CheckAgent, Reason: "agent_not_published: no package"}
	changed := taskcatalog.Finding{Check: taskcatalog.CheckAgent, Subject: "/usr/bin/hostler-agent", NextAction: taskcatalog.ActionReimage}
	for name, c := range map[string]struct {
		clean *certificate.Clean
		codes []taskcatalog.Code
		told  bool // the row is worth nothing there
	}{
		"fresh, made":      {w.compared(certificate.FreshOS, made), nil, false},
		"fresh, not made":  {w.compared(certificate.FreshOS, not), []taskcatalog.Code{certificate.CodeNotValidated, certificate.CodeCheckNotMade}, false},
		"fresh, changed":   {w.compared(certificate.FreshOS, made, changed), []taskcatalog.Code{certificate.CodeNotValidated, certificate.CodeFinding}, false},
		"tenant, made":     {w.compared(certificate.TenantOS, made), nil, true},
		"tenant, not made": {w.compared(certificate.TenantOS, not), nil, true},
		"tenant, changed":  {w.compared(certificate.TenantOS, made, changed), []taskcatalog.Code{certificate.CodeNotValidated, certificate.CodeFinding}, true},
		"tenant, another row not made": {
			w.compared(certificate.TenantOS, taskcatalog.Check{Name: "mounts", Reason: "x"}),
			[]taskcatalog.Code{certificate.CodeNotValidated, certificate.CodeCheckNotMade},
			false,
		},
	} {
		r := w.verify(w.issue(c.clean))
		var codes []taskcatalog.Code
		for _, s := range r.Clean.Verdict.Shortfalls {
			codes = append(codes, s.Code)
		}
		is := func(e certificate.Exposure) bool { return e.Code == certificate.ExposureAgent }
		if !slices.Equal(codes, c.codes) || slices.ContainsFunc(r.Clean.Exposures, is) != c.told {
			t.Errorf("%s: %v, want %v; exposures %v", name, codes, c.codes, r.Clean.Exposures)
		}
		if !c.told {
			continue
		}
		c.clean.Exposures = slices.DeleteFunc(c.clean.Exposures, is)
		_, err := certificate.Verify(must(certificate.Forge(c.clean, w.statement))(t), w.trust, w.now)
		wantCode(t, name+", and no word of what it is worth", err, certificate.CodeIncomplete)
	}
}
