package turnover_test

import (
	"slices"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/taskcatalog"
)

// judgesTheSameAgain holds for each certificate of a test that it lacks nothing by the policy of its own turnover.
func (w *world) judgesTheSameAgain() {
	for _, id := range w.book.Certificates() {
		report, err := w.book.Verify(id)
		if err != nil {
			w.t.Fatal(err)
		}
		if lacks := turnover.Lacks(w.book.File(id), w.state(report.Clean.Run.ID).Policy); len(lacks) > 0 {
			w.t.Errorf("certificate %s lacks %q by the policy of its own turnover", id, lacks)
		}
	}
}

// lacks expects what a certificate lacks by a policy with a change.
func lacks(t *testing.T, file []byte, policy broker.Policy, name string, change func(*broker.Policy), want ...string) {
	t.Helper()
	change(&policy)
	if got := turnover.Lacks(file, policy.Turnover()); !slices.Equal(got, want) {
		t.Errorf("%s: the certificate lacks %q, want %q", name, got, want)
	}
}

func TestACertificateIsJudgedAgainByAStricterPolicy(t *testing.T) {
	w := newWorld(t)
	w.policy.RootRequiresReimage = false
	w.second(broker.Device{Role: broker.RoleData, Size: terabyte, Transport: "nvme"}, taskcatalog.DiskFacts{SizeBytes: terabyte, Transport: "nvme"})
	w.book.LetIn(node, "a-1", "acme", true)
	r := w.begin(turnover.Request{Mode: turnover.SoftReset, Erase: taskcatalog.EraseSecure, ForceRelease: true})
	if r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	file := w.book.File(w.state(r.ID).Issued)
	for _, c := range []struct {
		name   string
		change func(*broker.Policy)
		want   []string
	}{
		{"the same policy", func(*broker.Policy) {}, nil},
		{"other drains, and another time", func(p *broker.Policy) { p.DrainGraceSeconds, p.CertificateValidSeconds = 1, 60 }, nil},
		{"a laxer policy", func(p *broker.Policy) { p.DiskGrade, p.GPUAllowUnverified = "none", true }, nil},
		{"a fresh system", func(p *broker.Policy) { p.TurnoverEnvironment = "fresh_os" }, []string{"environment_below_policy"}},
		{"a fresh system after root", func(p *broker.Policy) { p.RootRequiresReimage = true }, []string{"root_requires_fresh_os"}},
		{"no deleted files in place of an erase", func(p *broker.Policy) { p.AcceptSystemDisk = false }, []string{"method_below_policy", "downgrade_not_accepted"}},
		{"all at once", func(p *broker.Policy) { p.TurnoverEnvironment, p.RootRequiresReimage = "fresh_os", true }, []string{"environment_below_policy", "root_requires_fresh_os"}},
	} {
		lacks(t, file, w.policy, c.name, c.change, c.want...)
	}
	if got := turnover.Lacks([]byte("{}"), w.policy.Turnover()); len(got) == 0 {
		t.Error("a file that cannot be read lacks nothing")
	}
	if got := turnover.Lacks(file[:len(file)/2], w.policy.Turnover()); !slices.Equal(got, []string{"malformed"}) {
		t.Errorf("half a file lacks %q", got)
	}
}

// What a certificate fell short of when it was issued is not lacking now, and a laxer policy does not mend it.
func TestWhatFellShortAtIssueIsNoNewShortfall(t *testing.T) {
	w := newWorld(t)
	w.policy.AcceptSystemDisk = false
	r := w.begin(turnover.Request{Mode: turnover.SoftReset})
	if s := w.state(r.ID); s.MeetsPolicy || s.Issued == "" {
		t.Fatalf("%+v", s)
	}
	file := w.book.File(w.state(r.ID).Issued)
	lacks(t, file, w.policy, "the same policy", func(*broker.Policy) {})
	lacks(t, file, w.policy, "a laxer policy", func(p *broker.Policy) { p.AcceptSystemDisk, p.DiskGrade = true, "none" })
	lacks(t, file, w.policy, "a stricter policy", func(p *broker.Policy) { p.TurnoverEnvironment = "fresh_os" }, "environment_below_policy")
	report, err := w.book.Verify(w.state(r.ID).Issued)
	if err != nil || report.Clean.Verdict.MeetsPolicy {
		t.Errorf("the signed verdict is %+v, %v", report, err)
	}
}

// What a policy accepted counts only while a policy accepts it; what a person accepted stays accepted.
func TestAnAcceptanceOfAPolicyEndsWithIt(t *testing.T) {
	s := newSite(t)
	s.place.Policy.AcceptMAASErase = true
	s.book.LetIn(s.id, "a-1", "acme", true)
	r := s.turnOver(reimage)
	if r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	file := s.book.File(s.certified(r.ID).ID)
	lacks(t, file, s.place.Policy, "the same policy", func(*broker.Policy) {})
	off := func(p *broker.Policy) { p.AcceptMAASErase = false }
	lacks(t, file, s.place.Policy, "MAAS's erase counts no longer", off, "device_unproven", "method_unverified", "downgrade_not_accepted")
	lacks(t, file, s.place.Policy, "a policy that accepts any downgrade", func(p *broker.Policy) { off(p); p.AcceptEraseDowngrade = "none" })

	w := newWorld(t)
	w.policy.AcceptSystemDisk = false
	r = w.begin(turnover.Request{Mode: turnover.SoftReset})
	report, err := w.book.Verify(w.state(r.ID).Issued)
	if err != nil || len(report.Clean.Downgrades) == 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	for _, d := range report.Clean.Downgrades {
		d.AcceptedBy, d.Because = "ada", "wiped by hand"
		w.book.Accept(r.ID, d)
	}
	if r = w.act(r.ID, chain.RetryStage); r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	lacks(t, w.book.File(w.state(r.ID).Issued), w.policy, "an operator's acceptance", func(*broker.Policy) {})
}
