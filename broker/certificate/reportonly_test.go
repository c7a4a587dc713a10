package certificate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/taskcatalog"
)

var (
	version  = taskcatalog.Finding{Check: taskcatalog.CheckFirmware, Subject: "bios_version", Detail: "it is 2 and was 1", NextAction: taskcatalog.ActionByHand}
	notAsked = taskcatalog.Check{Name: taskcatalog.CheckBMCUsers, Reason: "ipmitool is not installed"}
	noBMC    = taskcatalog.Check{Name: taskcatalog.CheckBMCLAN, Made: true, NotApplicable: true, Reason: "the machine has no BMC"}
)

// differing is a turnover with a changed version and an unanswered BMC check, under a policy that
// only reports these checks.
func (w *world) differing(told ...string) *certificate.Clean {
	w.t.Helper()
	c := w.clean(gpu("GPU-1", "1650001"))
	c.Policy.ReportOnly = told
	c.Findings = []taskcatalog.Finding{version}
	c.Validation = certificate.Validation{
		TaskID: "t-validate", Verdict: taskcatalog.VerdictNotClean, ChecksMade: len(certificate.Always) + 2,
		ChecksNotMade: []taskcatalog.Check{notAsked}, NotApplicable: []taskcatalog.Check{noBMC},
	}
	c.Tasks[2] = w.prove("t-validate", "node.validate_clean", w.now.Add(-40*time.Minute), taskcatalog.Report{
		Verdict: taskcatalog.VerdictNotClean, Findings: c.Findings,
		Checks: looked(taskcatalog.Check{Name: taskcatalog.CheckFirmware, Made: true}, notAsked, noBMC),
	}, nil)
	return c
}

func TestWhatThePolicyHasOnlyToldPassesAndIsTold(t *testing.T) {
	w := newWorld(t)
	for name, row := range map[string]struct {
		told   []string
		change func(c *certificate.Clean)
		codes  []taskcatalog.Code // none: meets the policy
	}{
		"both":     {[]string{"bmc_users", "firmware_versions"}, nil, nil},
		"neither":  {nil, nil, []taskcatalog.Code{certificate.CodeNotValidated, certificate.CodeCheckNotMade, certificate.CodeFinding}},
		"one only": {[]string{"bmc_users"}, nil, []taskcatalog.Code{certificate.CodeNotValidated, certificate.CodeFinding}},
		"others":   {[]string{"efi", "sriov"}, nil, []taskcatalog.Code{certificate.CodeNotValidated, certificate.CodeCheckNotMade, certificate.CodeFinding}},
		"findings not listed": {
			[]string{"bmc_users", "firmware_versions"},
			func(c *certificate.Clean) { c.FindingsOmitted = 1 },
			[]taskcatalog.Code{certificate.CodeNotValidated, certificate.CodeFinding},
		},
		"residue beside": {[]string{"bmc_users", "firmware_versions"}, func(c *certificate.Clean) {
			c.Findings = append(c.Findings, taskcatalog.Finding{Check: "users", Subject: "mallory"})
		}, []taskcatalog.Code{certificate.CodeNotValidated, certificate.CodeFinding}},
		"a verdict that nothing explains": {
			[]string{"bmc_users", "firmware_versions"},
			func(c *certificate.Clean) { c.Findings = nil },
			[]taskcatalog.Code{certificate.CodeNotValidated},
		},
		"unproven": {
			[]string{"bmc_users", "firmware_versions"},
			func(c *certificate.Clean) { c.Tasks[2].Proof = nil },
			[]taskcatalog.Code{certificate.CodeNotValidated},
		},
	} {
		c := w.differing(row.told...)
		if row.change != nil {
			row.change(c)
		}
		var codes []taskcatalog.Code
		for _, s := range certificate.Judge(c).Shortfalls {
			codes = append(codes, s.Code)
		}
		if !slices.Equal(codes, row.codes) {
			t.Errorf("%s: %v, want %v", name, codes, row.codes)
		}
	}
	r := w.verify(w.issue(w.differing("bmc_users", "firmware_versions")))
	if !r.Holds() || r.Clean.Validation.Verdict != taskcatalog.VerdictNotClean {
		t.Errorf("%s: %v", r.Sentence(), r.Remarks)
	}
	for _, want := range []string{"bmc_users: it could not be looked at, which the site's policy lets pass", "firmware_versions: 1 found to differ from the baseline, which the site's policy lets pass"} {
		if !slices.Contains(r.Clean.Exposures, certificate.Exposure{Code: certificate.ExposureReportedOnly, Message: want}) {
			t.Errorf("%q is not in %v", want, r.Clean.Exposures)
		}
	}
	receipt := must(certificate.ReceiptOf(r, w.now))(t)
	if !slices.ContainsFunc(receipt.Exposures, func(e certificate.Exposure) bool {
		return e.Code == certificate.ExposureReportedOnly && !strings.Contains(e.Message, "bios")
	}) {
		t.Errorf("the tenant is not told: %v", receipt.Exposures)
	}
}

// A broker cannot report a milder policy, or fewer findings.
func TestACertificateThatHidesWhatItLetsPassIsRefused(t *testing.T) {
	w := newWorld(t)
	both := []string{"bmc_users", "firmware_versions"}
	for name, row := range map[string]struct {
		told   []string
		change func(c *certificate.Clean)
		code   taskcatalog.Code
	}{
		"residue let pass":     {[]string{"users"}, nil, certificate.CodeIncomplete},
		"a check that is none": {[]string{"bmc"}, nil, certificate.CodeIncomplete},
		"checks in disorder":   {[]string{"firmware_versions", "bmc_users"}, nil, certificate.CodeIncomplete},
		"a check twice":        {[]string{"bmc_users", "bmc_users"}, nil, certificate.CodeIncomplete},
		"the finding left out": {both, func(c *certificate.Clean) { c.Findings = nil }, certificate.CodeFindingHidden},
		"the check left out":   {both, func(c *certificate.Clean) { c.Validation.ChecksNotMade = nil }, certificate.CodeFindingHidden},
		"what does not apply":  {both, func(c *certificate.Clean) { c.Validation.NotApplicable = nil }, certificate.CodeFindingHidden},
		"more that does not": {both, func(c *certificate.Clean) {
			c.Validation.NotApplicable = append(c.Validation.NotApplicable, taskcatalog.Check{Name: "efi", Made: true, NotApplicable: true})
		}, certificate.CodeVerdictUnfounded},
		"a made one that does not": {both, func(c *certificate.Clean) {
			c.Validation.NotApplicable = append(c.Validation.NotApplicable, taskcatalog.Check{Name: "users", Made: true})
		}, certificate.CodeVerdictUnfounded},
	} {
		c := w.differing(row.told...)
		if row.change != nil {
			row.change(c)
		}
		_, err := certificate.Issue(c, w.statement)
		wantCode(t, name, err, row.code)
	}
	c := w.differing(both...)
	must(certificate.Issue(c, w.statement))(t)
	c.Exposures = nil
	_, err := certificate.Verify(must(certificate.Forge(c, w.statement))(t), w.trust, w.now)
	wantCode(t, "no word of what passes", err, certificate.CodeIncomplete)
}
