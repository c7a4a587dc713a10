package registry

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/hostler/hostler/broker"
)

// challenge is what a registry says of its token service.
type challenge struct{ realm, service string }

var paramForm = regexp.MustCompile(`^\s*,?\s*([A-Za-z]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))`)

// bearerIn finds the challenge that names a token service among WWW-Authenticate lines.
// The scope that it may name is not read: what is asked for is the caller's.
func bearerIn(lines []string) (challenge, bool) {
	for _, line := range lines {
		scheme, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			continue
		}
		var c challenge
		for m := paramForm.FindStringSubmatch(rest); m != nil; m = paramForm.FindStringSubmatch(rest) {
			rest = rest[len(m[0]):]
			value := strings.ReplaceAll(m[2], `\`, "") + m[3]
			switch strings.ToLower(m[1]) {
			case "realm":
				c.realm = value
			case "service":
				c.service = value
			}
		}
		if c.realm != "" {
			return c, true
		}
	}
	return challenge{}, false
}

// address is where a token is asked for; why says what the account may not be sent
// there for.
func (c challenge) address(plainHTTP bool, repository string) (at *url.URL, why string) {
	at, err := url.Parse(c.realm)
	switch {
	case err != nil || at.Host == "" || at.User != nil || at.Opaque != "" || at.Fragment != "":
		return nil, "the address that it names for its token service is none"
	case at.Scheme != "https" && (at.Scheme != "http" || !plainHTTP):
		return nil, "its token service is not at https"
	}
	q := at.Query()
	q.Del("scope")
	if c.service != "" {
		q.Set("service", c.service)
	}
	if repository != "" {
		q.Set("scope", "repository:"+repository+":pull")
	}
	at.RawQuery = q.Encode()
	return at, ""
}

// originOf is the part of an address that says who is asked: https://HOST[:PORT].
func originOf(at *url.URL) string {
	return at.Scheme + "://" + broker.RegistryName(at.Host, at.Scheme == "http")
}
