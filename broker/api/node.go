package api

import "time"

// Node is the record of one machine.
type Node struct {
	ID           string            `json:"id"`
	Hostname     string            `json:"hostname"`
	Site         string            `json:"site,omitempty"`
	SKU          string            `json:"sku,omitempty"`
	Status       string            `json:"status" doc:"bootstrap_issued, enrolling, active, offline, quarantined, draining, retired, removing or deleted"`
	StatusReason string            `json:"status_reason,omitempty"`
	TurnoverOwed bool              `json:"turnover_owed" doc:"nothing leads to active while it is set"`
	Epoch        int64             `json:"epoch" doc:"counts enrolments; 0 before the first"`
	Bootstrap    string            `json:"bootstrap" doc:"cloud-init or command"`
	MAASSystemID string            `json:"maas_system_id,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`

	NodeOrigin

	TaskTypes    []string          `json:"task_types,omitempty" doc:"name@version, as the node reported"`
	Capabilities map[string]string `json:"capabilities,omitempty" doc:"as the node reported"`
	AgentVersion string            `json:"agent_version,omitempty"`

	TrustVersion       int64     `json:"trust_version" doc:"of the trust bundle that the node confirmed"`
	BaselineDigest     string    `json:"baseline_digest,omitempty"`
	EnrolledAt         time.Time `json:"enrolled_at,omitzero"`
	LastAgentContactAt time.Time `json:"last_agent_contact_at,omitzero"`
	CertNotAfter       time.Time `json:"cert_not_after,omitzero"`
	CreatedAt          time.Time `json:"created_at"`
	UpdatedAt          time.Time `json:"updated_at"`
}

// NodeOrigin says where a node comes from: its site, its SKU, and the run that created it. Only the
// answer about a single node carries a NodeOrigin.
type NodeOrigin struct {
	OnboardingMode string `json:"onboarding_mode,omitempty" doc:"maas, adopted for one that was deployed before, or manual for a node whose machine a person brought up"`
	OnboardingID   string `json:"onboarding_id,omitempty" doc:"the run that made it"`
	SiteID         string `json:"site_id,omitempty"`
	RegionCode     string `json:"region_code,omitempty" doc:"of its site"`
	Host           string `json:"host,omitempty" doc:"the address that MAAS tells of, or told of during the onboarding"`
	IPMIIP         string `json:"ipmi_ip,omitempty"`
	Serial         string `json:"serial,omitempty" doc:"of the chassis, as its agent reports it"`
	PXEMAC         string `json:"pxe_mac,omitempty"`
	GPUsTotal      int    `json:"gpus_total,omitzero" doc:"by its SKU"`
	AccessMethod   string `json:"access_method,omitempty" doc:"node_agent: how tenants are let in"`
	Port           int    `json:"port,omitzero" doc:"of its sshd; of a node that an onboarding deployed"`
	SSHUsername    string `json:"ssh_username,omitempty" doc:"deploy user of its site, never root; of a node that an onboarding deployed"`

	Devices []NodeDevice `json:"devices,omitempty" doc:"its parts by serial: what it shall have, and what its agent reports"`
	Handout *Handout     `json:"handout,omitempty" doc:"whether it may be handed to a tenant, and why not"`
}

// NodeList is one page of nodes.
type NodeList struct {
	Standing
	Items      []Node `json:"items"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// NodeCreate asks for a node record and the data that the machine needs to enrol.
type NodeCreate struct {
	Hostname     string            `json:"hostname" minLength:"1" maxLength:"253"`
	Site         string            `json:"site,omitempty" maxLength:"63"`
	SKU          string            `json:"sku,omitempty" maxLength:"63"`
	Bootstrap    string            `json:"bootstrap,omitempty" enum:"cloud-init,command" default:"cloud-init"`
	MAASSystemID string            `json:"maas_system_id,omitempty" maxLength:"64"`
	Labels       map[string]string `json:"labels,omitempty"`
	TTLSeconds   int64             `json:"ttl_seconds,omitzero" minimum:"60" maximum:"2592000" doc:"how long the enrolment token lives; 24 h where it is left out"`
	PackageURLs  []string          `json:"package_urls,omitempty" maxItems:"8" doc:"where the agent package may be fetched besides the broker"`
	Arch         string            `json:"arch,omitempty" enum:"amd64,arm64" default:"amd64"`
	Reason       string            `json:"reason,omitempty" maxLength:"500"`
}

// NodeBootstrap is the data that the machine is given to enrol. Token, CloudConfig and Command are
// secrets: the broker shows them once and keeps them nowhere.
type NodeBootstrap struct {
	Node        Node      `json:"node"`
	BrokerURL   string    `json:"broker_url" doc:"of the agents' listener"`
	CASHA256    string    `json:"ca_sha256" doc:"hex SHA-256 of the root certificate"`
	Token       string    `json:"token" doc:"one-time enrolment token"`
	ExpiresAt   time.Time `json:"expires_at"`
	CloudConfig string    `json:"cloud_config,omitempty" doc:"user-data as it is, where bootstrap is cloud-init"`
	Command     string    `json:"command,omitempty" doc:"one line to paste, where bootstrap is command"`
	Warning     string    `json:"warning,omitempty" doc:"what is still missing, for example an agent package"`
}

// TokenRequest asks for an enrolment token, or for more time.
type TokenRequest struct {
	TTLSeconds int64  `json:"ttl_seconds,omitzero" minimum:"60" maximum:"2592000" doc:"from now; 24 h where it is left out"`
	Reason     string `json:"reason,omitempty" maxLength:"500"`
}

// EnrollToken is the state of a node's enrolment token, without the token itself.
type EnrollToken struct {
	NodeID     string    `json:"node_id"`
	ExpiresAt  time.Time `json:"expires_at"`
	Extensions int       `json:"extensions" doc:"how often it was extended; at most twice"`
}

// Labels replaces the named labels and leaves the others.
type Labels struct {
	Labels map[string]string `json:"labels" doc:"an empty value removes the label"`
	Reason string            `json:"reason,omitempty" maxLength:"500"`
}

// NodeAction asks for a change of status.
type NodeAction struct {
	Reason       string `json:"reason,omitempty" maxLength:"500"`
	Override     bool   `json:"override,omitzero" doc:"activate past an owed turnover: platform_admin only, with a reason"`
	GraceSeconds int    `json:"grace_seconds,omitzero" minimum:"0" maximum:"300" doc:"of drain: from SIGTERM to SIGKILL"`
	AllocationID string `json:"allocation_id,omitempty" maxLength:"64" doc:"of remove: the allocation that may still be there"`
	Force        bool   `json:"force,omitzero" doc:"of retire and remove: of a node that no longer answers; platform_admin only, with a reason"`
}

// NodeActionResult is the node after an action, and the task that the action started.
type NodeActionResult struct {
	Node Node  `json:"node"`
	Task *Task `json:"task,omitempty"`
}
