package certificate_test

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/taskcatalog"
)

// A receipt addresses the tenant: it explains "meets the policy", names the issuer, and tells how
// to check the receipt independently.
func TestAReceiptSpeaksToTheTenant(t *testing.T) {
	w := newWorld(t)
	page := func(issuer *certificate.Issuer) string {
		c := w.clean(gpu("GPU-1", "1650001"))
		c.Issuer = issuer
		receipt := must(certificate.ReceiptOf(w.verify(w.issue(c)), w.now))(t)
		return string(must(certificate.Page(w.verify(must(certificate.IssueReceipt(receipt, w.statement))(t))))(t))
	}
	named := page(example())
	for _, has := range []string{
		"Your access ended", "installed after your access ended", "examination from the operating system that you used, or better; disks of the grade clear, or better",
		"clean: meets the operator&#39;s policy", "How you verify this receipt yourself", "hostler-verify --trust trust.json receipt.json",
		"from the issuer's own pages.\nDo not take the address from a receipt", "names\n<code>https://example.com/hostler/trust.json</code>: compare", "ask Example Compute for the certificate",
	} {
		if !strings.Contains(named, has) {
			t.Errorf("the receipt does not say %q", has)
		}
	}
	if strings.Contains(named, "tenant left") || strings.Contains(named, "the tenant used") {
		t.Error("the receipt speaks of the tenant as of somebody else")
	}
	if unnamed := page(nil); !strings.Contains(unnamed, "from whoever rented you the machine") {
		t.Error("a receipt without an issuer does not say who has the trust file")
	}
}

// A receipt carries its certificate's policy. An older receipt has none, and holds.
func TestAReceiptCarriesThePolicy(t *testing.T) {
	w := newWorld(t)
	c := w.clean(gpu("GPU-1", "1650001"))
	c.Policy.ReportOnly = taskcatalog.PlatformChecks()[:1]
	receipt := must(certificate.ReceiptOf(w.verify(w.issue(c)), w.now))(t)
	if p := receipt.Policy; p == nil || p.Version != c.Policy.Version || p.DiskGrade != c.Policy.DiskGrade || !strings.Contains(p.ToTenant(), "Reported and not counted: "+c.Policy.ReportOnly[0]) {
		t.Errorf("the receipt has the policy %+v", p)
	}
	receipt.Policy.DiskGrade = "shiny"
	_, err := certificate.IssueReceipt(receipt, w.statement)
	wantCode(t, "a policy that is none", err, certificate.CodeIncomplete)
	receipt.Policy = nil
	r := w.verify(must(certificate.IssueReceipt(receipt, w.statement))(t))
	if page := string(must(certificate.Page(r))(t)); !r.Holds() || !strings.Contains(page, "not stated in this file") {
		t.Errorf("a receipt from before is %v", r.Remarks)
	}
}
