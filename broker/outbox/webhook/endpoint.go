package webhook

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

const maxURL = 500

var hostForm = lazyregexp.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

// CheckURL returns the URL of an endpoint as it is stored, and its host. The refusal repeats nothing
// of the URL, which may have a password. Code: webhook_url_invalid.
func CheckURL(text string) (stored, host string, err error) {
	refuse := func(why string) error {
		return broker.Errorf(broker.Invalid, "webhook_url_invalid", "cannot use the URL of the webhook: %s", why)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxURL || u.Opaque != "" || strings.ToLower(u.Scheme) != "https" || u.Host == "":
		return "", "", refuse("write https://HOST[:PORT]/PATH, at most 500 characters")
	case u.User != nil:
		return "", "", refuse("it has a user or a password (the signature shows who sends)")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(text, "#"):
		return "", "", refuse("it has a query or a fragment (put what tells endpoints apart into the path)")
	case !portFine(u.Port()) || strings.HasSuffix(u.Host, ":"):
		return "", "", refuse("its port must be 443, or 1024 and above")
	}
	u.Scheme, u.Host = "https", strings.ToLower(u.Host)
	host = u.Hostname()
	if a, err := netip.ParseAddr(host); (err != nil || a.Zone() != "") && (!hostForm.MatchString(host) || len(host) > 253) {
		return "", "", refuse("its host must be a name or an address")
	}
	return u.String(), host, nil
}

func portFine(port string) bool {
	if port == "" || port == "443" {
		return true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n >= 1024
}
