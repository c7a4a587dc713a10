package adminapi

import "github.com/hostler/hostler/broker"

// access says who may use a route: callers of the platform with a role, and callers of a tenant with
// a role at a place. A route that names no role of tenants is the platform's alone.
type access struct {
	platform broker.Role
	tenant   broker.Role // empty: no caller of a tenant
	at       place
}

// place is the place at which a caller of a tenant needs the role. The look-up of what the path
// names reaches no further than the caller's own place.
type place string

const (
	atOwnPlace     place = "the token's own place"
	atOrganisation place = "the organisation"
	atProject      place = "the project"
	atMember       place = "the member's place"
)

// The access of the platform's routes.
var (
	viewer   = access{platform: broker.RoleViewer}
	operator = access{platform: broker.RoleOperator}
	admin    = access{platform: broker.RolePlatformAdmin}
)

// or admits callers of a tenant, too.
func (c access) or(role broker.Role, at place) access {
	c.tenant, c.at = role, at
	return c
}

// admits reports whether a caller's role suffices. A caller of a tenant gets nothing by a role of
// the platform, and a caller of the platform nothing by a role of tenants.
func (c access) admits(who caller) bool {
	if who.Place.OfPlatform() {
		return who.Role.Covers(c.platform)
	}
	return who.Role.Covers(c.tenant)
}

// needs names the role that a caller would need.
func (c access) needs(who caller) broker.Role {
	if !who.Place.OfPlatform() && c.tenant != "" {
		return c.tenant
	}
	return c.platform
}

// String describes the access for the documentation.
func (c access) String() string {
	if c.tenant == "" {
		return string(c.platform)
	}
	return string(c.platform) + ", or " + string(c.tenant) + " at " + string(c.at)
}
