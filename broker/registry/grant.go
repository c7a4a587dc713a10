package registry

import (
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// claims are the claims of a token. Only JWTs have claims.
type claims struct {
	Expires *float64 `json:"exp"` // seconds of Unix time
	Access  *[]grant `json:"access"`
}

// grant has the form that Distribution writes.
type grant struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Actions []string `json:"actions"`
}

// claimsIn reads a token. A token that is not a JWT has no claims. A token in three parts that
// cannot be read might claim anything, and is reported as unreadable.
func claimsIn(token string) (c claims, readable bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, true
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	return c, err == nil && json.Unmarshal(raw, &c) == nil
}

// permits says whether a token may pull a repository, and whether it may do more. A token without
// access claims is assumed to permit the requested scope.
func (c claims) permits(repository string) (pulls, more bool) {
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

// end returns the expiry of a token with the stated expiry at. none: the stated expiry or the
// token's own is after last.
func (c claims) end(at, last time.Time) (_ time.Time, none bool) {
	if at.After(last) || c.Expires != nil && *c.Expires > float64(last.Unix()) {
		return time.Time{}, true
	}
	if c.Expires != nil && *c.Expires < float64(at.Unix()) {
		at = time.Unix(int64(max(*c.Expires, 0)), 0)
	}
	return at, false
}
