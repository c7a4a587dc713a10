package registry

import (
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// claims are what a token may say of itself. Only those that are JWTs do.
type claims struct {
	Expires *float64 `json:"exp"` // seconds of Unix time
	Access  *[]grant `json:"access"`
}

// grant is of the form that Distribution writes.
type grant struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Actions []string `json:"actions"`
}

// claimsIn reads a token. One that is no JWT says nothing; what is as long as one, and
// cannot be read, might say anything.
func claimsIn(token string) (c claims, readable bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, true
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	return c, err == nil && json.Unmarshal(raw, &c) == nil
}

// opens says whether a token may pull a repository, and whether it may do more. One
// that does not say is taken to open what was asked for.
func (c claims) opens(repository string) (pulls, more bool) {
	if c.Access == nil {
		return true, false
	}
	for _, g := range *c.Access {
		switch {
		case len(g.Actions) == 0:
		case g.Type == "repository" && g.Name == repository && !slices.ContainsFunc(g.Actions, func(a string) bool { return a != "pull" }):
			pulls = true
		default:
			more = true
		}
	}
	return pulls, more
}

// end is when a token ends of which was said at; none: it is after last, by what was
// said or by itself.
func (c claims) end(at, last time.Time) (_ time.Time, none bool) {
	if at.After(last) || c.Expires != nil && *c.Expires > float64(last.Unix()) {
		return time.Time{}, true
	}
	if c.Expires != nil && *c.Expires < float64(at.Unix()) {
		at = time.Unix(int64(max(*c.Expires, 0)), 0)
	}
	return at, false
}
