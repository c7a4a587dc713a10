package registry

import (
	"net/url"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// challenge is a registry's description of its token service.
type challenge struct{ realm, service string }

// bearerIn finds the challenge with a token service among WWW-Authenticate lines. Its scope is
// ignored: the caller decides the scope.
func bearerIn(lines []string) (challenge, bool) {
	for _, line := range lines {
		for _, c := range challengesIn(line) {
			if strings.EqualFold(c.scheme, "Bearer") && c.params["realm"] != "" {
				return challenge{c.params["realm"], c.params["service"]}, true
			}
		}
	}
	return challenge{}, false
}

// challengePart is one challenge of a WWW-Authenticate line; names of params are in lower case.
type challengePart struct {
	scheme string
	params map[string]string
}

// The pieces of a line, by RFC 9110, sections 5.6 and 11.
var (
	schemeForm  = lazyregexp.New("^[ \t,]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:[ \t]+|[ \t]*(,|$))")
	paramForm   = lazyregexp.New("^[ \t,]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*=[ \t]*(?:\"((?:[^\"\\\\]|\\\\.)*)\"|([!#$%&'*+.^_`|~0-9A-Za-z:/-]+))[ \t]*(?:,|$)")
	token68Form = lazyregexp.New("^[0-9A-Za-z._~+/-]+=*[ \t]*(?:,|$)")
	escaped     = lazyregexp.New(`\\(.)`)
)

// challengesIn splits a line into challenges. Commas separate challenges, and also the params of a
// challenge: a name followed by = is a param, and any other name begins the next challenge. Parsing
// stops at anything else.
func challengesIn(line string) []challengePart {
	var all []challengePart
	for {
		m := schemeForm.FindStringSubmatch(line)
		if m == nil {
			return all
		}
		line = line[len(m[0]):]
		c := challengePart{scheme: m[1], params: map[string]string{}}
		if word := token68Form.FindString(line); word != "" && m[2] == "" {
			line = line[len(word):]
		}
		for p := paramForm.FindStringSubmatch(line); p != nil; p = paramForm.FindStringSubmatch(line) {
			line = line[len(p[0]):]
			c.params[strings.ToLower(p[1])] = escaped.ReplaceAllString(p[2], "$1") + p[3]
		}
		all = append(all, c)
	}
}

// address returns the URL for token requests; why says why the account may not be sent there.
func (c challenge) address(plainHTTP bool, repository string) (at *url.URL, why string) {
	at, err := url.Parse(c.realm)
	switch {
	case err != nil || at.Host == "" || at.User != nil || at.Opaque != "" || at.Fragment != "":
		return nil, "the registry names an invalid address of its token service"
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

// originOf returns the origin of an address: https://HOST[:PORT].
func originOf(at *url.URL) string {
	return at.Scheme + "://" + taskcatalog.RegistryName(at.Host, at.Scheme == "http")
}
