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
	TurnoverOwed bool              `json:"turnover_owed" doc:"the node cannot become active while a turnover is owed"`
	Epoch        int64             `json:"epoch" doc:"number of enrolments; 0 before the first"`
	Bootstrap    string            `json:"bootstrap" doc:"cloud-init or command"`
	MAASSystemID string            `json:"maas_system_id,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`

	NodeAvailability

	Serial       string `json:"serial" doc:"serial number of the chassis, as the agent reports it; empty: not reported"`
	Host         string `json:"host" doc:"address that MAAS reports, or reported during the onboarding; empty: not known"`
	IPMIIP       string `json:"ipmi_ip" doc:"address of the BMC; empty: no onboarding named it"`
	PXEMAC       string `json:"pxe_mac" doc:"MAC address of the PXE interface; empty: no onboarding named it"`
	GPUsTotal    int    `json:"gpus_total" doc:"number of GPUs of the node's SKU"`
	SiteID       string `json:"site_id" doc:"empty: the site has no record"`
	RegionCode   string `json:"region_code" doc:"region of the node's site"`
	Zone         string `json:"zone" doc:"availability zone; this part of the place, and each of the next five, is empty or 0 if it is not known. The label of that name counts where the part is not known"`
	Room         string `json:"room"`
	Row          string `json:"row"`
	Rack         string `json:"rack"`
	Unit         int    `json:"unit" doc:"lowest rack unit of the machine, from 1"`
	Domain       string `json:"domain" doc:"failure domain"`
	AllocationID string `json:"allocation_id" doc:"newest allocation whose user may be on the node; empty: none"`
	Tenant       string `json:"tenant" doc:"tenant of that allocation; empty: none, or not given"`
	Image        string `json:"image" doc:"image that MAAS installed for the present enrolment; empty: not known"`

	NodeOrigin

	TaskTypes    []string          `json:"task_types,omitempty" doc:"name@version, as the node reported"`
	Capabilities map[string]string `json:"capabilities,omitempty" doc:"as the node reported"`
	AgentVersion string            `json:"agent_version,omitempty"`

	TrustVersion       int64     `json:"trust_version" doc:"version of the trust bundle that the node confirmed"`
	BaselineDigest     string    `json:"baseline_digest,omitempty"`
	EnrolledAt         time.Time `json:"enrolled_at,omitzero"`
	LastAgentContactAt time.Time `json:"last_agent_contact_at,omitzero"`
	CertNotAfter       time.Time `json:"cert_not_after,omitzero"`
	CreatedAt          time.Time `json:"created_at"`
	UpdatedAt          time.Time `json:"updated_at"`
}

// NodeAvailability says in one word whether the node may be handed to a tenant, as the broker judged
// last. Only a node's own answer and lists of nodes carry it.
type NodeAvailability struct {
	Availability      string    `json:"availability,omitempty" doc:"allocated, available, in_turnover, maintenance, held, out_of_service, or unknown: the node was not judged yet, or not for too long"`
	AvailabilityCodes []string  `json:"availability_codes,omitempty" doc:"codes of the reasons against handing out; the first decided the word"`
	AvailabilitySince time.Time `json:"availability_since,omitzero" doc:"since when the node has the word"`
	AvailabilityAt    time.Time `json:"availability_at,omitzero" doc:"when the node was last judged"`
}

// NodeOrigin says where a node comes from, and what hangs on it. Only the answer about a single node
// carries a NodeOrigin.
type NodeOrigin struct {
	OnboardingMode string `json:"onboarding_mode,omitempty" doc:"maas; adopted: the machine was deployed before; manual: an operator installed the machine"`
	OnboardingID   string `json:"onboarding_id,omitempty" doc:"the run that created the node"`
	AccessMethod   string `json:"access_method,omitempty" doc:"how tenants get access: node_agent"`
	Port           int    `json:"port,omitzero" doc:"port of sshd; only on a node that an onboarding deployed"`
	SSHUsername    string `json:"ssh_username,omitempty" doc:"deploy user of the site, never root; only on a node that an onboarding deployed"`

	Devices []NodeDevice `json:"devices,omitempty" doc:"expected and reported devices, by serial number"`
	Handout *Handout     `json:"handout,omitempty" doc:"whether the node may be handed to a tenant, and the reasons against it"`

	Replaces   string `json:"replaces,omitempty" doc:"id of the node whose place the machine took"`
	ReplacedBy string `json:"replaced_by,omitempty" doc:"id of the node that took the place of the machine"`
}

// NodeList is one page of nodes.
type NodeList struct {
	Standing
	Items []Node `json:"items"`
	Next  string `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// NodeCreate asks for a node record and the data that the machine needs to enrol.
type NodeCreate struct {
	Hostname     string `json:"hostname" minLength:"1" maxLength:"253"`
	Site         string `json:"site,omitempty" maxLength:"63"`
	SKU          string `json:"sku,omitempty" maxLength:"63"`
	Bootstrap    string `json:"bootstrap,omitempty" enum:"cloud-init,command" default:"cloud-init"`
	MAASSystemID string `json:"maas_system_id,omitempty" maxLength:"64"`
	Place
	Labels      map[string]string `json:"labels,omitempty"`
	TTLSeconds  int64             `json:"ttl_seconds,omitzero" minimum:"60" maximum:"2592000" doc:"lifetime of the enrolment token; default 24 h"`
	PackageURLs []string          `json:"package_urls,omitempty" maxItems:"8" doc:"further URLs of the agent package, besides the broker"`
	Arch        string            `json:"arch,omitempty" enum:"amd64,arm64" default:"amd64"`
	Reason      string            `json:"reason,omitempty" maxLength:"500"`
}

// NodeBootstrap is the data that the machine is given to enrol. Token, CloudConfig and Command are
// secrets: the broker shows them once and keeps them nowhere.
type NodeBootstrap struct {
	Node        Node      `json:"node"`
	BrokerURL   string    `json:"broker_url" doc:"URL of the agents' listener"`
	CASHA256    string    `json:"ca_sha256" doc:"hex SHA-256 of the root certificate"`
	Token       string    `json:"token" doc:"one-time enrolment token"`
	ExpiresAt   time.Time `json:"expires_at"`
	CloudConfig string    `json:"cloud_config,omitempty" doc:"user-data, if bootstrap is cloud-init"`
	Command     string    `json:"command,omitempty" doc:"command line to paste, if bootstrap is command"`
	Warning     string    `json:"warning,omitempty" doc:"what is still missing, for example an agent package"`
}

// TokenRequest asks for an enrolment token, or for more time.
type TokenRequest struct {
	TTLSeconds int64  `json:"ttl_seconds,omitzero" minimum:"60" maximum:"2592000" doc:"lifetime from now; default 24 h"`
	Reason     string `json:"reason,omitempty" maxLength:"500"`
}

// EnrollToken is the state of a node's enrolment token, without the token itself.
type EnrollToken struct {
	NodeID     string    `json:"node_id"`
	ExpiresAt  time.Time `json:"expires_at"`
	Extensions int       `json:"extensions" doc:"number of extensions, at most two"`
}

// Labels replaces the named labels and leaves the others.
type Labels struct {
	Labels map[string]string `json:"labels" doc:"an empty value removes the label"`
	Reason string            `json:"reason,omitempty" maxLength:"500"`
}

// NodeAction asks for a change of status.
type NodeAction struct {
	Reason       string `json:"reason,omitempty" maxLength:"500"`
	Override     bool   `json:"override,omitzero" doc:"for activate: activate the node although a turnover is owed; platform_admin only, with a reason"`
	GraceSeconds int    `json:"grace_seconds,omitzero" minimum:"0" maximum:"300" doc:"for drain: time from SIGTERM to SIGKILL"`
	AllocationID string `json:"allocation_id,omitempty" maxLength:"64" doc:"for remove: the allocation that may still be on the node"`
	Force        bool   `json:"force,omitzero" doc:"for retire and remove: the node no longer answers; platform_admin only, with a reason"`
}

// NodeActionResult is the node after an action, and the task that the action started.
type NodeActionResult struct {
	Node Node  `json:"node"`
	Task *Task `json:"task,omitempty"`
}
