package broker

import (
	"strings"
	"testing"
)

func TestAnIssuerHasAnOrganisationAndAnAddressThatAnybodyMayRead(t *testing.T) {
	good := Issuer{Organisation: "Example Compute", Contact: "trust@example.com", TrustURL: "https://example.com/hostler/trust.json"}
	for name, c := range map[string]struct {
		change func(*Issuer)
		bad    bool
	}{
		"all of it":                 {func(*Issuer) {}, false},
		"none":                      {func(i *Issuer) { *i = Issuer{} }, false},
		"a name alone":              {func(i *Issuer) { i.Contact, i.TrustURL = "", "" }, false},
		"no organisation":           {func(i *Issuer) { i.Organisation = "" }, true},
		"a blank organisation":      {func(i *Issuer) { i.Organisation = " " }, true},
		"a space before":            {func(i *Issuer) { i.Organisation = "\u00a0Example" }, true},
		"a control in the name":     {func(i *Issuer) { i.Organisation = "Example\x1b[2J" }, true},
		"an organisation of 201":    {func(i *Issuer) { i.Organisation = strings.Repeat("a", 201) }, true},
		"a blank contact":           {func(i *Issuer) { i.Contact = " " }, true},
		"a control in the contact":  {func(i *Issuer) { i.Contact = "a\nb" }, true},
		"a contact of 201":          {func(i *Issuer) { i.Contact = strings.Repeat("a", 201) }, true},
		"a URL and no organisation": {func(i *Issuer) { i.Organisation, i.Contact = "", "" }, true},
		"a control in the URL":      {func(i *Issuer) { i.TrustURL = "https://example.com/\u0085" }, true},
		"a URL that reads backward": {func(i *Issuer) { i.TrustURL = "https://example.com/\u202enosj" }, true},
		"a space after the URL":     {func(i *Issuer) { i.TrustURL += " " }, true},
		"http":                      {func(i *Issuer) { i.TrustURL = "http://example.com/trust.json" }, true},
		"no host":                   {func(i *Issuer) { i.TrustURL = "https:///trust.json" }, true},
		"a password":                {func(i *Issuer) { i.TrustURL = "https://u:hunter2@example.com/trust.json" }, true},
		"a URL of 501":              {func(i *Issuer) { i.TrustURL = "https://e/" + strings.Repeat("a", 491) }, true},
		"a program's name":          {func(i *Issuer) { i.TrustURL = "javascript:alert(1)" }, true},
	} {
		s := goodSite()
		s.Issuer = good
		c.change(&s.Issuer)
		err := s.Check()
		if (err != nil) != c.bad || err != nil && AsError(err).Code != "site_invalid" {
			t.Errorf("%s: %v", name, err)
		} else if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the password is in the error: %v", name, err)
		}
	}
}
