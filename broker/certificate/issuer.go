package certificate

import (
	"net/url"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// Issuer is the organisation that answers for a certificate, as the site's settings
// name it. Nothing in it is proven but that the statement key signed it.
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

// valid reports whether an issuer is one. None is.
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

// Issuer is who issued the document; nil: it names nobody.
func (r *Report) Issuer() *Issuer {
	switch {
	case r.Clean != nil:
		return r.Clean.Issuer
	case r.Receipt != nil:
		return r.Receipt.Issuer
	}
	return nil
}
