package certificate_test

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/certificate"
)

// example is an organisation that issues certificates.
func example() *certificate.Issuer {
	return &certificate.Issuer{Organisation: "Example Compute", Contact: "trust@example.com", TrustURL: "https://example.com/hostler/trust.json"}
}

// The issuer is signed into the certificate, and copied into its receipt; both pages name the
// issuer.
func TestTheIssuerIsSignedAndShown(t *testing.T) {
	w := newWorld(t)
	c := w.clean(gpu("GPU-1", "1650001"))
	c.Issuer = example()
	r := w.verify(w.issue(c))
	receipt := w.verify(must(certificate.IssueReceipt(must(certificate.ReceiptOf(r, w.now))(t), w.statement))(t))
	for _, r := range []*certificate.Report{r, receipt} {
		if r.Issuer() == nil || *r.Issuer() != *example() {
			t.Errorf("%s is issued by %+v", r.Title(), r.Issuer())
		}
		page := string(must(certificate.Page(r))(t))
		for _, has := range []string{"Example Compute", "trust@example.com", "https://example.com/hostler/trust.json"} {
			if !strings.Contains(page, has) {
				t.Errorf("the page of %s has no %s", r.Title(), has)
			}
		}
	}
	if page := string(must(certificate.Page(w.verify(w.issue(w.clean(gpu("GPU-1", "1"))))))(t)); !strings.Contains(page, "not named in this file") {
		t.Error("a page does not say that its file names no issuer")
	}
}

// A reader may follow an issuer's address: an issuer whose address is not a plain https address, or
// who has no name, is neither issued nor believed.
func TestAnIssuerThatIsNoneIsRefused(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(*certificate.Issuer){
		"no organisation":        func(i *certificate.Issuer) { i.Organisation = "" },
		"a blank organisation":   func(i *certificate.Issuer) { i.Organisation = " " },
		"a space after":          func(i *certificate.Issuer) { i.Organisation = "Example\u00a0" },
		"an organisation of 201": func(i *certificate.Issuer) { i.Organisation = strings.Repeat("a", 201) },
		"a blank contact":        func(i *certificate.Issuer) { i.Contact = " " },
		"a contact of 201":       func(i *certificate.Issuer) { i.Contact = strings.Repeat("a", 201) },
		"a URL of 501":           func(i *certificate.Issuer) { i.TrustURL = "https://e/" + strings.Repeat("a", 491) },
		"a URL without a host":   func(i *certificate.Issuer) { i.TrustURL = "https:///trust.json" },
		"a space after the URL":  func(i *certificate.Issuer) { i.TrustURL += " " },
		"http":                   func(i *certificate.Issuer) { i.TrustURL = "http://example.com/" },
		"a script":               func(i *certificate.Issuer) { i.TrustURL = "javascript:alert(1)" },
		"a password":             func(i *certificate.Issuer) { i.TrustURL = "https://u:p@example.com/" },
	} {
		c := w.clean(gpu("GPU-1", "1"))
		c.Issuer = example()
		change(c.Issuer)
		_, err := certificate.Issue(c, w.statement)
		wantCode(t, "issue with "+name, err, certificate.CodeIncomplete)
		certificate.Complete(c)
		_, err = certificate.Verify(must(certificate.Forge(c, w.statement))(t), w.trust, w.now)
		wantCode(t, "verify with "+name, err, certificate.CodeIncomplete)
	}
}

// Issue escapes control characters, and Verify refuses a file with a raw control character as not
// canonical. The issuer's own rule depends on neither.
func TestAnIssuerHasNoCharactersThatAreNoText(t *testing.T) {
	if !certificate.ValidIssuer(example()) {
		t.Fatal("the example is none")
	}
	for name, change := range map[string]func(*certificate.Issuer){
		"a control in the name":      func(i *certificate.Issuer) { i.Organisation = "Example\x1b[2J" },
		"a name that reads backward": func(i *certificate.Issuer) { i.Organisation = "Example \u202eevil" },
		"a control in the contact":   func(i *certificate.Issuer) { i.Contact = "a\nb" },
		"a control in the URL":       func(i *certificate.Issuer) { i.TrustURL = "https://example.com/\u0085" },
		"a URL that reads backward":  func(i *certificate.Issuer) { i.TrustURL = "https://example.com/\u202enosj" },
	} {
		i := example()
		change(i)
		if certificate.ValidIssuer(i) {
			t.Errorf("%s is accepted", name)
		}
	}
}
