package registry

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/hostler/hostler/broker"
)

// challenge is what a registry says of its token service.
type challenge struct{ realm, service string }

// bearerIn finds the challenge that names a token service among WWW-Authenticate
// lines. The scope that it may name is not read: what is asked for is the caller's.
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

// offered is one challenge of a WWW-Authenticate line; names of params are in lower
// case.
type offered struct {
	scheme string
	params map[string]string
}

// The pieces of a line, by RFC 9110, sections 5.6 and 11.
var (
	schemeForm  = regexp.MustCompile("^[ \t,]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:[ \t]+|[ \t]*(,|$))")
	paramForm   = regexp.MustCompile("^[ \t,]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*=[ \t]*(?:\"((?:[^\"\\\\]|\\\\.)*)\"|([!#$%&'*+.^_`|~0-9A-Za-z:/-]+))[ \t]*(?:,|$)")
	token68Form = regexp.MustCompile("^[0-9A-Za-z._~+/-]+=*[ \t]*(?:,|$)")
	escaped     = regexp.MustCompile(`\\(.)`)
)

// challengesIn takes a line apart. Commas stand between challenges and between the
// params of one: a name with a = after it is a param, and one without begins the next
// challenge. What follows a piece that is neither is not read.
func challengesIn(line string) []offered {
	var all []offered
	for {
		m := schemeForm.FindStringSubmatch(line)
		if m == nil {
			return all
		}
		line = line[len(m[0]):]
		c := offered{scheme: m[1], params: map[string]string{}}
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
