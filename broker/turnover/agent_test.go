package turnover_test

import (
	"slices"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
)

// An agent's report on itself counts in a fresh system, where the check is required. In the
// tenant's system the agent may be another, and a clean report proves nothing. A report of a
// change counts anywhere.
func TestTheAgentMustHaveBeenComparedInAFreshSystem(t *testing.T) {
	type machine = turnovertest.Machine
	notMade := func(m *machine) { m.NotMade = []string{taskcatalog.CheckAgent} }
	older := func(m *machine) { m.Unknown = []string{taskcatalog.CheckAgent} }
	more := func(m *machine) { m.NotMade = []string{taskcatalog.CheckAgent, "mounts"} }
	changed := func(m *machine) {
		m.Residue = []taskcatalog.Finding{{Check: taskcatalog.CheckAgent, Subject: taskcatalog.AgentLink, NextAction: taskcatalog.ActionReimage}}
	}
	for name, test := range map[string]struct {
		asks   turnover.Request
		finds  func(m *machine)
		passes bool
	}{
		"a soft reset: as it was published":      {reset, func(*machine) {}, true},
		"a soft reset: nobody knows what it is":  {reset, notMade, true},
		"a soft reset: an agent without the row": {reset, older, true},
		"a soft reset: mounts not read, either":  {reset, more, false},
		"a soft reset: it is changed":            {reset, changed, false},
		"a reimage: as it was published":         {reimage, func(*machine) {}, true},
		"a reimage: nobody knows what it is":     {reimage, notMade, false},
		"a reimage: an agent without the row":    {reimage, older, false},
		"a reimage: it is changed":               {reimage, changed, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.place.Policy.AcceptMAASErase, s.place.Policy.AcceptSystemDisk = true, true
			s.place.Policy.DiskGrade = string(certificate.GradeNone)
			s.book.Change(s.id, test.finds)
			r := s.turnOver(test.asks)
			if !test.passes {
				if r.Status == chain.Completed || r.Stage != "validate_clean_node" {
					t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
				}
				s.is(broker.Quarantined, true)
				return
			}
			if r.Status != chain.Completed {
				t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
			s.is(broker.Active, false)
			report, err := s.book.Verify(s.state(r.ID).Issued)
			if err != nil || !report.Holds() {
				t.Fatalf("%+v, %v", report, err)
			}
			marked := slices.ContainsFunc(report.Clean.Exposures, func(e certificate.Exposure) bool { return e.Code == certificate.ExposureAgent })
			if marked != (test.asks.Mode == turnover.SoftReset) {
				t.Errorf("marked as not proven: %v, in %s", marked, report.Clean.Environment)
			}
		})
	}
}
