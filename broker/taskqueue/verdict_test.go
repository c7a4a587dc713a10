package taskqueue_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// allMade are the checks of a node on which every row could be inspected.
func allMade() []taskcatalog.Check {
	var all []taskcatalog.Check
	for _, name := range taskcatalog.LookedAt() {
		all = append(all, taskcatalog.Check{Name: name, Made: true})
	}
	return all
}

// summed is the result of a validation with a verdict.
func summed(v taskcatalog.Verdict) string {
	return fmt.Sprintf(`{"verdict":%q,"findings":0,"checks_made":0,"checks_not_made":0}`, v)
}

// A node may report a milder verdict than its findings; the broker goes by the findings, and by
// the table: an uninspected part is never clean.
func TestAVerdictIsNeverBetterThanWhatIsBehindIt(t *testing.T) {
	all := allMade()
	notMade := slices.Clone(all)
	notMade[7].Made, notMade[7].Reason = false, "no such program"
	found := []taskcatalog.Finding{{Check: "users"}}
	const ok, failed = taskcatalog.OutcomeSucceeded, taskcatalog.OutcomeFailed
	table := map[string]struct {
		outcome taskcatalog.Outcome
		report  taskcatalog.Report
		want    taskcatalog.Verdict
	}{
		"clean, and every row made":      {ok, taskcatalog.Report{Verdict: "clean", Checks: all}, "clean"},
		"clean, without any check":       {ok, taskcatalog.Report{Verdict: "clean", Checks: []taskcatalog.Check{}}, "inconclusive"},
		"clean, with a row left out":     {ok, taskcatalog.Report{Verdict: "clean", Checks: all[1:]}, "inconclusive"},
		"clean, with a finding":          {ok, taskcatalog.Report{Verdict: "clean", Checks: all, Findings: found}, "not_clean"},
		"clean, with findings hidden":    {ok, taskcatalog.Report{Verdict: "clean", Checks: all, FindingsOmitted: 1}, "not_clean"},
		"clean, with a check not made":   {ok, taskcatalog.Report{Verdict: "clean", Checks: notMade}, "inconclusive"},
		"inconclusive, every row made":   {ok, taskcatalog.Report{Verdict: "inconclusive", Checks: all}, "inconclusive"},
		"not clean, without findings":    {ok, taskcatalog.Report{Verdict: "not_clean", Checks: all}, "not_clean"},
		"not clean, without any check":   {ok, taskcatalog.Report{Verdict: "not_clean"}, "not_clean"},
		"clean, but it failed":           {failed, taskcatalog.Report{Verdict: "clean", Checks: all}, "inconclusive"},
		"it failed, and says none":       {failed, taskcatalog.Report{}, ""},
		"it failed, but found something": {failed, taskcatalog.Report{Verdict: "not_clean", Findings: found}, "not_clean"},
	}
	each(t, func(w *world) {
		n := w.active("one")
		for name, c := range table {
			w.run(name, func(w *world) {
				k := w.enqueue(n, "node.validate_clean", "")
				d := w.fetch(n)[0]
				result := ""
				if c.outcome == ok {
					result = summed(c.report.Verdict)
				}
				ev := w.evidence(n, d, c.outcome, result)
				ev.Report = c.report
				_, err := w.queue.Result(ctx, n.Peer, k.ID, w.answer(n, d, ev, result))
				w.ok(err)
				if got := w.task(k.ID).Verdict; got != c.want {
					w.t.Fatalf("verdict %q, want %q", got, c.want)
				}
			})
		}
	})
}

// Each row is a false report about an inspection. None ends the task.
func TestAVerdictThatCannotBeBelievedIsRefused(t *testing.T) {
	all := allMade()
	const look, take = "", `{"take_baseline":true}`
	withBaseline := func(w *world) string {
		return `{"findings":0,"checks_made":0,"checks_not_made":0,"baseline":` + string(baseline(w)) + `}`
	}
	table := []struct {
		name, typ, params string
		result            func(*world) string
		report            taskcatalog.Report
		code              string
	}{
		{"a row that is none", "node.validate_clean", look, nil, taskcatalog.Report{Verdict: "clean", Checks: append(slices.Clone(all), taskcatalog.Check{Name: "\x1b[2J", Made: true})}, "evidence_checks"},
		{"a row that nobody on the node can see", "node.validate_clean", look, nil, taskcatalog.Report{Verdict: "clean", Checks: append(slices.Clone(all), taskcatalog.Check{Name: "firmware", Made: true})}, "evidence_checks"},
		{"a row told twice", "node.validate_clean", look, nil, taskcatalog.Report{Verdict: "clean", Checks: append(slices.Clone(all), all[0])}, "evidence_checks"},
		{"a row told twice instead of another", "node.validate_clean", look, nil, taskcatalog.Report{Verdict: "clean", Checks: append(slices.Clone(all[1:]), all[1])}, "evidence_checks"},
		{"no verdict", "node.validate_clean", look, nil, taskcatalog.Report{Checks: all}, "evidence_verdict"},
		{"a verdict of its own", "node.validate_clean", look, nil, taskcatalog.Report{Verdict: "spotless", Checks: all}, "evidence_verdict"},
		{"another verdict than its result", "node.validate_clean", look, func(*world) string { return summed("clean") }, taskcatalog.Report{Verdict: "not_clean", Checks: all}, "evidence_verdict"},
		{"a better verdict than its result", "node.validate_clean", look, func(*world) string { return summed("not_clean") }, taskcatalog.Report{Verdict: "clean", Checks: all}, "evidence_verdict"},
		{"a verdict while it took a baseline", "node.validate_clean", take, withBaseline, taskcatalog.Report{Verdict: "clean", Checks: all}, "evidence_verdict"},
		{"a row told twice while it took a baseline", "node.validate_clean", take, withBaseline, taskcatalog.Report{Checks: append(slices.Clone(all), all[0])}, "evidence_checks"},
		{"a verdict of a task that comes to none", "node.heartbeat_check", "", func(*world) string { return heartbeat }, taskcatalog.Report{Verdict: "clean", Checks: all}, "evidence_verdict"},
	}
	each(t, func(w *world) {
		n := w.active("one")
		for _, c := range table {
			w.run(c.name, func(w *world) {
				k := w.enqueue(n, c.typ, c.params)
				d := w.fetch(n)[0]
				result := summed(c.report.Verdict)
				if c.result != nil {
					result = c.result(w)
				}
				ev := w.evidence(n, d, taskcatalog.OutcomeSucceeded, result)
				ev.Report = c.report
				_, err := w.queue.Result(ctx, n.Peer, k.ID, w.answer(n, d, ev, result))
				w.refused(err, c.code)
				if got := w.task(k.ID); got.Status != broker.TaskDispatched || got.Verdict != "" {
					w.t.Fatalf("the task is %s %s", got.Status, got.Verdict)
				}
			})
		}
	})
}

// Only checks below the operating system may be not applicable, and only if the baseline has no
// settings for them: otherwise a part is missing.
func TestACheckDoesNotApplyByTheBaselineToo(t *testing.T) {
	not := func(name string, made bool) []taskcatalog.Check {
		all := allMade()
		i := slices.IndexFunc(all, func(c taskcatalog.Check) bool { return c.Name == name })
		all[i].NotApplicable, all[i].Made = true, made
		return all
	}
	base, err := taskcatalog.Encode(taskcatalog.Baseline{Platform: []taskcatalog.PlatformRow{
		{Check: taskcatalog.CheckBMCUsers, Absent: "no BMC"},
		{Check: taskcatalog.CheckEFI, Settings: []taskcatalog.PlatformSetting{{Name: "SecureBoot", Value: "on"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]struct {
		checks []taskcatalog.Check
		code   string
	}{
		"as it was when the baseline was taken": {not(taskcatalog.CheckBMCUsers, true), ""},
		"the baseline has settings of it":       {not(taskcatalog.CheckEFI, true), "evidence_checks"},
		"the baseline does not have the check":  {not(taskcatalog.CheckSRIOV, true), "evidence_checks"},
		"no such check is ever without matter":  {not("users", true), "evidence_checks"},
		"neither made nor applicable":           {not(taskcatalog.CheckBMCUsers, false), "evidence_checks"},
	}
	each(t, func(w *world) {
		n := w.active("one")
		w.ok(w.db.SaveBaseline(ctx, operator, n.Peer.NodeID, pki.Digest(base), base, "test"))
		for name, c := range table {
			w.run(name, func(w *world) {
				k := w.enqueue(n, "node.validate_clean", "")
				d := w.fetch(n)[0]
				result := summed(taskcatalog.VerdictClean)
				ev := w.evidence(n, d, taskcatalog.OutcomeSucceeded, result)
				ev.Report = taskcatalog.Report{Verdict: taskcatalog.VerdictClean, Checks: c.checks}
				_, err := w.queue.Result(ctx, n.Peer, k.ID, w.answer(n, d, ev, result))
				if c.code != "" {
					w.refused(err, c.code)
					return
				}
				w.ok(err)
				if got := w.task(k.ID).Verdict; got != taskcatalog.VerdictClean {
					w.t.Errorf("verdict %q", got)
				}
			})
		}
	})
}
