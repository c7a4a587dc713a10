package certificate

import (
	"net/url"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// Issuer is the organisation responsible for a certificate, from the site's settings. Only the
// signature of the statement key vouches for the content.
type Issuer struct {
	Organisation string `json:"organisation"`
	Contact      string `json:"contact,omitempty"`
	TrustURL     string `json:"trust_url,omitempty"` // where the trust file can be fetched
}

// Bounds of an issuer, in bytes.
const (
	maxIssuerText = 200
	maxTrustURL   = 500
)

// valid reports whether the issuer is well-formed. A nil issuer is valid.
func (i *Issuer) valid() bool {
	if i == nil {
		return true
	}
	for _, f := range []struct {
		text string
		most int
	}{{i.Organisation, maxIssuerText}, {i.Contact, maxIssuerText}, {i.TrustURL, maxTrustURL}} {
		if f.text != taskcatalog.Clean(f.text, f.most) || f.text != strings.TrimSpace(f.text) {
			return false
		}
	}
	u, err := url.Parse(i.TrustURL)
	return i.Organisation != "" && (i.TrustURL == "" || err == nil && u.Scheme == "https" && u.Hostname() != "" && u.User == nil)
}

// Issuer is the issuer of the document; nil: not named.
func (r *Report) Issuer() *Issuer {
	switch {
	case r.Clean != nil:
		return r.Clean.Issuer
	case r.Receipt != nil:
		return r.Receipt.Issuer
	}
	return nil
}
