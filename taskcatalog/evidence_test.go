package taskcatalog

import (
	"slices"
	"strings"
	"testing"
)

func TestTheVerdictIsNeverCleanerThanWhatWasLookedAt(t *testing.T) {
	var all []Check
	for _, name := range LookedAt() {
		all = append(all, Check{Name: name, Made: true})
	}
	not := Check{Name: "bpf", Reason: "cannot ask the kernel"}
	for name, c := range map[string]struct {
		report Report
		want   Verdict
	}{
		"all looked at, nothing found":       {Report{Checks: all}, VerdictClean},
		"nothing looked at":                  {Report{}, VerdictInconclusive},
		"one row left out":                   {Report{Checks: all[1:]}, VerdictInconclusive},
		"one row twice instead of another":   {Report{Checks: append(slices.Clone(all[1:]), all[1])}, VerdictInconclusive},
		"one not looked at":                  {Report{Checks: append(slices.Clone(all), not)}, VerdictInconclusive},
		"a row that is none":                 {Report{Checks: append(slices.Clone(all[1:]), Check{Name: "hidden_kernel", Made: true})}, VerdictInconclusive},
		"found":                              {Report{Checks: all, Findings: []Finding{{}}}, VerdictNotClean},
		"found, and one not looked at":       {Report{Checks: []Check{not}, Findings: []Finding{{}}}, VerdictNotClean},
		"found more than the report can say": {Report{FindingsOmitted: 1}, VerdictNotClean},
	} {
		c.report.Judge()
		if c.report.Verdict != c.want {
			t.Errorf("%s: %s, want %s", name, c.report.Verdict, c.want)
		}
	}
}

func TestAReportIsBoundedWhateverIsFound(t *testing.T) {
	var r Report
	long := strings.Repeat("\x1b", 10<<20)
	for range MaxFindings + 7 {
		r.Find(Finding{Check: "temporary", Subject: long[:MaxText*2], Detail: "\n"})
	}
	r.Find(Finding{Subject: long})
	for range MaxDispositions + 5 {
		r.Dispose(Disposition{Check: "temporary", Path: long[:MaxText*2], Reason: "\n"})
	}
	if len(r.Findings) != MaxFindings || r.FindingsOmitted != 8 || len(r.Dispositions) != MaxDispositions || r.DispositionsOmitted != 5 {
		t.Errorf("%d and %d left out, %d and %d left out", len(r.Findings), r.FindingsOmitted, len(r.Dispositions), r.DispositionsOmitted)
	}
	for _, f := range r.Findings {
		if len(f.Subject) > MaxText || strings.ContainsAny(f.Subject+f.Detail, "\x1b\n") {
			t.Fatalf("%+v", f)
		}
	}
	for _, d := range r.Dispositions {
		if len(d.Path) > MaxText || strings.ContainsAny(d.Path+d.Reason, "\x1b\n") {
			t.Fatalf("%+v", d)
		}
	}
}

func TestVerdictsHaveOneOrder(t *testing.T) {
	order := []Verdict{VerdictNotClean, VerdictInconclusive, VerdictClean}
	for i, a := range order {
		for j, b := range order {
			if a.Better(b) != (i > j) || Lesser(a, b) != order[min(i, j)] {
				t.Errorf("%s and %s: better %v, the lesser is %s", a, b, a.Better(b), Lesser(a, b))
			}
		}
		for _, none := range []Verdict{"", "Clean", "dirty"} {
			if !a.Valid() || none.Valid() || none.Better(a) || a.Better(none) != (a != VerdictNotClean) {
				t.Errorf("%s and %q: better %v, the other way %v", a, none, a.Better(none), none.Better(a))
			}
			if a != VerdictNotClean && (Lesser(a, none) != none || Lesser(none, a) != none) {
				t.Errorf("the lesser of %s and %q is %q", a, none, Lesser(a, none))
			}
		}
	}
}
