package api

import "time"

// Token describes an operator's bearer token, without the secret itself.
type Token struct {
	Name  string   `json:"name" doc:"name of the actor in the audit log"`
	Email string   `json:"email,omitempty" doc:"of a person who signed in, if the provider has verified it"`
	Role  string   `json:"role" doc:"a role of the platform (platform_admin, operator, viewer) or of tenants (tenant_admin, project_admin, project_member, project_viewer)"`
	Sites []string `json:"sites,omitempty" doc:"empty: all sites"`
	// The place at which a role of tenants holds.
	OrganisationID string `json:"organisation_id" doc:"empty: the platform"`
	ProjectID      string `json:"project_id" doc:"empty: the platform, or a whole organisation"`
	MemberID       string `json:"member_id,omitempty" doc:"the member whose token it is"`

	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
}

// TokenList lists tokens, revoked and expired ones too.
type TokenList struct {
	Standing
	Items []Token `json:"items"`
	Next  string  `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// TokenCreate asks for a token.
type TokenCreate struct {
	Name         string   `json:"name" minLength:"1" maxLength:"64" pattern:"^[a-z0-9][a-z0-9._@-]*$"`
	Role         string   `json:"role,omitempty" enum:"platform_admin,operator,viewer,tenant_admin,project_admin,project_member,project_viewer" doc:"needed, unless member is given"`
	Sites        []string `json:"sites,omitempty" maxItems:"64"`
	Organisation string   `json:"organisation,omitempty" maxLength:"64" doc:"the place of a role of tenants: an organisation's id or name"`
	Project      string   `json:"project,omitempty" maxLength:"130" doc:"the place of a role of tenants: a project's id, its name, or ORGANISATION/NAME"`
	Member       string   `json:"member,omitempty" maxLength:"64" doc:"the member whose further token this is: role and place are the member's"`
	TTLSeconds   int64    `json:"ttl_seconds,omitzero" minimum:"60" maximum:"31536000" doc:"lifetime; default 90 days"`
	Reason       string   `json:"reason,omitempty" maxLength:"500"`
}

// TokenCreated shows the secret once.
type TokenCreated struct {
	Token  Token  `json:"token"`
	Secret string `json:"secret" doc:"shown only once and never stored"`
}
