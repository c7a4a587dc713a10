package broker

import (
	"slices"
	"strings"
	"time"
)

// Role is the role of a bearer token or of a member. Roles of the platform and roles of tenants are
// two sets: no role of a set includes a role of the other set.
type Role string

// The roles of the platform. Each role includes the roles below.
const (
	RolePlatformAdmin Role = "platform_admin" // sites, credentials, trust, releases, overrides, tokens, tenants
	RoleOperator      Role = "operator"       // runs tasks and chains
	RoleViewer        Role = "viewer"         // reads
)

// The roles of tenants. Each role includes the roles below, at its place alone.
const (
	RoleTenantAdmin   Role = "tenant_admin"   // an organisation's projects and members
	RoleProjectAdmin  Role = "project_admin"  // a project's members, and all that is the project's
	RoleProjectMember Role = "project_member" // asks for nodes, and releases them
	RoleProjectViewer Role = "project_viewer" // reads
)

var (
	platformRank = map[Role]int{RoleViewer: 1, RoleOperator: 2, RolePlatformAdmin: 3}
	tenantRank   = map[Role]int{RoleProjectViewer: 1, RoleProjectMember: 2, RoleProjectAdmin: 3, RoleTenantAdmin: 4}
)

// Covers reports whether role r includes role need.
func (r Role) Covers(need Role) bool {
	rank := platformRank
	if tenantRank[need] > 0 {
		rank = tenantRank
	}
	return rank[need] > 0 && rank[r] >= rank[need]
}

// OfTenants reports whether r is a role of tenants.
func (r Role) OfTenants() bool { return tenantRank[r] > 0 }

// At refuses a role that nobody can have at a place. Code: role_invalid.
func (r Role) At(p Place) error {
	name := cleanText(string(r))
	switch {
	case platformRank[r] > 0 && p.OfPlatform():
		return nil
	case platformRank[r] > 0:
		return Errorf(Invalid, "role_invalid", "cannot give role %s at a tenant: it is a role of the platform (choose a role of tenants)", name)
	case tenantRank[r] == 0:
		return Errorf(Invalid, "role_invalid", "cannot give role %q: it is neither a role of the platform (platform_admin, operator, viewer) "+
			"nor one of tenants (tenant_admin, project_admin, project_member, project_viewer)", name)
	case p.OfPlatform():
		return Errorf(Invalid, "role_invalid", "cannot give role %s without a place: it is a role of tenants (name an organisation or a project)", name)
	case r == RoleTenantAdmin && p.ProjectID != "":
		return Errorf(Invalid, "role_invalid", "cannot give role %s at a project: it is a role of a whole organisation (name no project)", name)
	}
	return nil
}

// SignedInPrefix begins the name of every person who signs in by OIDC. No operator token's name has a
// colon.
const SignedInPrefix = "oidc:"

// OperatorToken is the token of one person or machine. Only the bearer knows the secret itself. A
// person who signs in by OIDC has one as well, for each request: its name begins with oidc: and is in
// no table.
type OperatorToken struct {
	Name      string // the audit actor
	Email     string // of a person who signed in by OIDC, verified by the provider; empty: not known
	Role      Role
	Sites     []string // empty: all
	Place     Place    // where the role holds
	MemberID  string   // whose token it is; empty: of the platform, or of the member of the token's name
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	RevokedAt time.Time
}

// MaySee reports whether the token covers a site. A tenant's token covers none.
func (t OperatorToken) MaySee(site string) bool {
	return t.Place.OfPlatform() && (len(t.Sites) == 0 || slices.Contains(t.Sites, site))
}

// SignedIn reports whether the token is of a person who signed in by OIDC.
func (t OperatorToken) SignedIn() bool { return strings.HasPrefix(t.Name, SignedInPrefix) }

// Actor is the actor in an audit row.
type Actor struct {
	Name string // a token's name, "node:<id>", "system"
	Role Role
}

// System is the broker itself, for actions of no person and no node.
var System = Actor{Name: "system"}
