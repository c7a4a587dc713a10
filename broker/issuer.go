package broker

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// Issuer names the issuer of certificates for a site's machines, for readers outside. A site
// without an issuer has none of the three fields.
type Issuer struct {
	Organisation string
	Contact      string // a person, a mail address or a telephone number
	TrustURL     string // where the trust file can be fetched
}

const maxIssuerText = 200 // bytes

// fault says why the issuer is invalid; empty: the issuer is valid, or absent.
func (i Issuer) fault() string {
	if i == (Issuer{}) {
		return ""
	}
	if i.Organisation == "" {
		return "issuer_organisation is empty, and an issuer needs an organisation"
	}
	for _, f := range []struct{ name, text string }{{"issuer_organisation", i.Organisation}, {"issuer_contact", i.Contact}} {
		if f.text != taskcatalog.Clean(f.text, maxIssuerText) {
			return fmt.Sprintf("%s has more than %d bytes, or characters that are not text", f.name, maxIssuerText)
		}
		if f.text != strings.TrimSpace(f.text) {
			return f.name + " begins or ends with a space"
		}
	}
	if i.TrustURL == "" {
		return ""
	}
	// The address is never repeated in an error: it may contain a password.
	u, err := url.Parse(i.TrustURL)
	text := i.TrustURL == taskcatalog.Clean(i.TrustURL, maxURL) && i.TrustURL == strings.TrimSpace(i.TrustURL)
	if err != nil || !text || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return "issuer_trust_url is not an https URL without a user, such as https://example.com/hostler/trust.json"
	}
	return ""
}
