package api

import "time"

// Organisation is a tenant: a customer with projects and members.
type Organisation struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	CreatedAt time.Time  `json:"created_at"`
	EndedAt   *time.Time `json:"ended_at" doc:"null: live"`
}

// OrganisationList is one page of organisations.
type OrganisationList struct {
	Items []Organisation `json:"items"`
	Next  string         `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// OrganisationCreate asks for an organisation.
type OrganisationCreate struct {
	Name   string `json:"name" minLength:"1" maxLength:"63" doc:"unique among the live organisations: a-z, 0-9 and '-'"`
	Reason string `json:"reason,omitempty" maxLength:"500"`
}

// Project is a part of an organisation, with members and quotas of its own.
type Project struct {
	ID             string     `json:"id"`
	OrganisationID string     `json:"organisation_id"`
	Name           string     `json:"name"`
	CreatedAt      time.Time  `json:"created_at"`
	EndedAt        *time.Time `json:"ended_at" doc:"null: live"`

	OnBegin *BoundOperation `json:"on_begin,omitempty" doc:"runs before an allocation becomes active, where its SKU names none"`
	OnEnd   *BoundOperation `json:"on_end,omitempty" doc:"runs first when an allocation is released, where its SKU names none"`

	JudgedLater []string `json:"judged_later,omitempty" doc:"in the answer to a change that binds operations: what policies say of them, and nobody can judge before an allocation begins or ends"`

	Placement *ProjectPlacement `json:"placement,omitempty" doc:"which nodes the project is given; for tokens of the platform only"`
}

// ProjectPlacement says which nodes the allocations of a project get.
type ProjectPlacement struct {
	PlacementOrder string            `json:"placement_order" enum:",node_id,newest_certificate,least_used" doc:"which of the free nodes are given first; empty: as the site's policy says"`
	NodeLabels     map[string]string `json:"node_labels" doc:"labels that each node must have"`
}

// ProjectUpdate changes which nodes a project is given. What is left out stays.
type ProjectUpdate struct {
	PlacementOrder *string           `json:"placement_order,omitempty" enum:",node_id,newest_certificate,least_used" doc:"empty: as the site's policy says"`
	NodeLabels     map[string]string `json:"node_labels,omitempty" doc:"labels that each node must have; an empty value removes the label"`
	Reason         string            `json:"reason,omitempty" maxLength:"500"`
}

// ProjectList is one page of projects.
type ProjectList struct {
	Items []Project `json:"items"`
	Next  string    `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// ProjectCreate asks for a project.
type ProjectCreate struct {
	Name   string `json:"name" minLength:"1" maxLength:"63" doc:"unique among the live projects of the organisation: a-z, 0-9 and '-'"`
	Reason string `json:"reason,omitempty" maxLength:"500"`
}

// Member is a person or a program that acts for a tenant.
type Member struct {
	ID             string     `json:"id"`
	Subject        string     `json:"subject" doc:"the member's name: that of the member's token, or oidc:SUBJECT of a person who signs in"`
	OrganisationID string     `json:"organisation_id"`
	ProjectID      string     `json:"project_id" doc:"empty: a member of the whole organisation"`
	Role           string     `json:"role" doc:"empty: a denied person who was no member"`
	CreatedAt      time.Time  `json:"created_at"`
	EndedAt        *time.Time `json:"ended_at" doc:"null: live"`
	DeniedAt       *time.Time `json:"denied_at" doc:"since when a person who signs in has no role here, whatever the rules of the broker say; null: not denied"`
	EndReason      string     `json:"end_reason" doc:"why the member ended or the person is denied; empty: live, or ended before reasons were kept"`
}

// MemberList is one page of members.
type MemberList struct {
	Items []Member `json:"items"`
	Next  string   `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// MemberAdd asks for a member.
type MemberAdd struct {
	Subject string `json:"subject" minLength:"1" maxLength:"64" pattern:"^([a-z0-9][a-z0-9._@-]*|oidc:[A-Za-z0-9._@|=+-]+)$" doc:"the member's name: that of the member's token, or oidc:SUBJECT of a person who signs in"`
	Role    string `json:"role" enum:"tenant_admin,project_admin,project_member,project_viewer"`
	Reason  string `json:"reason,omitempty" maxLength:"500"`
}

// MemberDeny asks for the denial of a person who signs in.
type MemberDeny struct {
	Subject string `json:"subject" minLength:"1" maxLength:"64" doc:"oidc:SUBJECT of a person who signs in"`
	Reason  string `json:"reason,omitempty" maxLength:"500" doc:"recorded in the audit log, and shown to who may list members"`
}

// SSHKey is a public key of a member.
type SSHKey struct {
	ID          string     `json:"id"`
	MemberID    string     `json:"member_id"`
	Type        string     `json:"type" doc:"such as ssh-ed25519"`
	PublicKey   string     `json:"public_key" doc:"TYPE BASE64"`
	Fingerprint string     `json:"fingerprint" doc:"SHA256:…, as ssh-keygen prints it"`
	Comment     string     `json:"comment"`
	CreatedAt   time.Time  `json:"created_at"`
	EndedAt     *time.Time `json:"ended_at" doc:"null: live"`
}

// SSHKeyList is one page of keys.
type SSHKeyList struct {
	Items []SSHKey `json:"items"`
	Next  string   `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// SSHKeyAdd stores a public key.
type SSHKeyAdd struct {
	PublicKey string `json:"public_key" minLength:"1" maxLength:"16384" doc:"one line of a .pub file"`
	Reason    string `json:"reason,omitempty" maxLength:"500"`
}

// Quota is the most that a project may have of a SKU at the same time.
type Quota struct {
	ProjectID string    `json:"project_id"`
	SKU       string    `json:"sku"`
	Nodes     int       `json:"nodes"`
	GPUs      int       `json:"gpus"`
	UpdatedAt time.Time `json:"updated_at"`
}

// QuotaList is one page of quotas. A project may have nothing of a SKU that is not listed.
type QuotaList struct {
	Items []Quota `json:"items"`
	Next  string  `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// QuotaPut sets a quota.
type QuotaPut struct {
	Nodes  int    `json:"nodes" minimum:"0" maximum:"1000000"`
	GPUs   int    `json:"gpus" minimum:"0" maximum:"1000000"`
	Reason string `json:"reason,omitempty" maxLength:"500"`
}
