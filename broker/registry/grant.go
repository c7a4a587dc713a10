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
	Expires float64  `json:"exp"` // seconds of Unix time; 0: it does not say
	Access  *[]grant `json:"access"`
}

// grant is of the form that Distribution writes.
type grant struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Actions []string `json:"actions"`
}

// claimsIn reads a token. Where it says nothing that can be read they are empty.
func claimsIn(token string) (c claims) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(raw, &c) != nil {
		return claims{}
	}
	return c
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

func (c claims) expires() time.Time {
	if c.Expires <= 0 || c.Expires > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(c.Expires), 0)
}
