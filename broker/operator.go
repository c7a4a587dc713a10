package broker

import (
	"slices"
	"time"
)

// Role is the role of a bearer token.
type Role string

// The roles. Each role includes the roles below.
const (
	RolePlatformAdmin Role = "platform_admin" // sites, credentials, trust, releases, overrides, tokens
	RoleOperator      Role = "operator"       // runs tasks and chains
	RoleViewer        Role = "viewer"         // reads
)

// Covers reports whether role r includes role need.
func (r Role) Covers(need Role) bool {
	rank := map[Role]int{RoleViewer: 1, RoleOperator: 2, RolePlatformAdmin: 3}
	return rank[r] > 0 && rank[r] >= rank[need]
}

// OperatorToken is the token of one person or machine. Only the bearer knows the secret itself.
type OperatorToken struct {
	Name      string // the audit actor
	Role      Role
	Sites     []string // empty: all
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	RevokedAt time.Time
}

// MaySee reports whether the token covers a site.
func (t OperatorToken) MaySee(site string) bool {
	return len(t.Sites) == 0 || slices.Contains(t.Sites, site)
}

// Actor is the actor in an audit row.
type Actor struct {
	Name string // a token's name, "node:<id>", "system"
	Role Role
}

// System is the broker itself, for actions of no person and no node.
var System = Actor{Name: "system"}
