package taskqueue_test

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// No text of a report may exceed the length of an honest node's texts, in any field.
func TestEveryTextOfAReportIsBounded(t *testing.T) {
	fits := strings.Repeat("x", taskcatalog.MaxText)
	long := fits + "x"
	finding := func(f taskcatalog.Finding) taskcatalog.Report {
		return taskcatalog.Report{Verdict: "not_clean", Findings: []taskcatalog.Finding{f}}
	}
	disposition := func(d taskcatalog.Disposition) taskcatalog.Report {
		return taskcatalog.Report{Verdict: "not_clean", Dispositions: []taskcatalog.Disposition{d}}
	}
	check := func(c taskcatalog.Check) taskcatalog.Report {
		return taskcatalog.Report{Verdict: "not_clean", Checks: []taskcatalog.Check{c}}
	}
	table := []struct {
		name   string
		report taskcatalog.Report
		code   string
	}{
		{"a finding's check", finding(taskcatalog.Finding{Check: long}), "evidence_bounds"},
		{"a finding's subject", finding(taskcatalog.Finding{Subject: long}), "evidence_bounds"},
		{"a finding's detail", finding(taskcatalog.Finding{Detail: long}), "evidence_bounds"},
		{"a finding's next action", finding(taskcatalog.Finding{NextAction: long}), "evidence_bounds"},
		{"a disposition's check", disposition(taskcatalog.Disposition{Check: long}), "evidence_bounds"},
		{"a disposition's path", disposition(taskcatalog.Disposition{Path: long}), "evidence_bounds"},
		{"a disposition's action", disposition(taskcatalog.Disposition{Action: long}), "evidence_bounds"},
		{"a disposition's reason", disposition(taskcatalog.Disposition{Reason: long}), "evidence_bounds"},
		{"a check's name", check(taskcatalog.Check{Name: long}), "evidence_bounds"},
		{"a check's reason", check(taskcatalog.Check{Name: "users", Reason: long}), "evidence_bounds"},
		{"nothing of a finding", finding(taskcatalog.Finding{Check: fits, Subject: fits, Detail: fits, NextAction: fits}), ""},
		{"nothing of a disposition", disposition(taskcatalog.Disposition{Check: fits, Path: fits, Action: fits, Reason: fits}), ""},
		{"nothing of a check", check(taskcatalog.Check{Name: "users", Reason: fits}), ""},
	}
	each(t, func(w *world) {
		n := w.active("one")
		for _, c := range table {
			w.run(c.name+" is too long", func(w *world) {
				k := w.enqueue(n, "node.validate_clean", "")
				d := w.fetch(n)[0]
				result := summed("not_clean")
				ev := w.evidence(n, d, taskcatalog.OutcomeSucceeded, result)
				ev.Report = c.report
				_, err := w.queue.Result(ctx, n.Peer, k.ID, w.answer(n, d, ev, result))
				if c.code == "" {
					w.ok(err)
					return
				}
				w.refused(err, c.code)
				if got := w.task(k.ID).Status; got != broker.TaskDispatched {
					w.t.Fatalf("the task is %s", got)
				}
			})
		}
	})
}
