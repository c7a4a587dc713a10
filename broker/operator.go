package broker

import (
	"slices"
	"time"
)

// Role is what a bearer token may do.
type Role string

// The roles, each able to do what the next one can.
const (
	RolePlatformAdmin Role = "platform_admin" // sites, credentials, trust, releases, overrides, tokens
	RoleOperator      Role = "operator"       // runs tasks and chains
	RoleViewer        Role = "viewer"         // reads
)

// Covers reports whether role r may do what needs role need.
func (r Role) Covers(need Role) bool {
	rank := map[Role]int{RoleViewer: 1, RoleOperator: 2, RolePlatformAdmin: 3}
	return rank[r] > 0 && rank[r] >= rank[need]
}

// OperatorToken is one person's or machine's way in. The secret itself is
// known only to its bearer.
type OperatorToken struct {
	Name      string // the audit actor
	Role      Role
	Sites     []string // empty: all
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	RevokedAt time.Time
}

// MaySee reports whether the token reaches a site.
func (t OperatorToken) MaySee(site string) bool {
	return len(t.Sites) == 0 || slices.Contains(t.Sites, site)
}

// Actor is who an audit row names.
type Actor struct {
	Name string // a token's name, "node:<id>", "system"
	Role Role
}

// System is the broker itself, where no person and no node acts.
var System = Actor{Name: "system"}
