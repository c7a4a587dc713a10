package api

import "time"

// SiteConfig is an operator's configuration of a MAAS site. For omitted fields a create takes the
// defaults, and a change keeps the present values.
type SiteConfig struct {
	Name         string `json:"name" maxLength:"63" doc:"name of the site, used also by its nodes; never changes"`
	RegionCode   string `json:"region_code" maxLength:"63"`
	Status       string `json:"status" enum:"active,disabled" doc:"at a disabled site, runs under way continue and no new run begins; default active"`
	APIBaseURL   string `json:"api_base_url" maxLength:"500" doc:"http(s)://HOST:5240/MAAS; once a token is set, this and ca_cert change with the credentials only"`
	CACert       string `json:"ca_cert,omitempty" maxLength:"65536" doc:"PEM certificates for an https address; empty: the system's trusted certificates"`
	PXEIface     string `json:"pxe_iface" maxLength:"15" doc:"PXE interface of the MAAS server"`
	PXEVLANVID   int    `json:"pxe_vlan_vid" minimum:"0" maximum:"4094"`
	NodePXEIface string `json:"node_pxe_iface" maxLength:"15" doc:"PXE interface of a node"`

	DistroSeries       string   `json:"distro_series" maxLength:"127" doc:"ubuntu/noble, or custom/IMAGE; default ubuntu/noble"`
	Architecture       string   `json:"architecture" maxLength:"63" doc:"default amd64/generic"`
	UpstreamDNSServers []string `json:"upstream_dns_servers" maxItems:"8" doc:"default 1.1.1.1, 8.8.8.8"`

	DeployUser     string `json:"deploy_user" maxLength:"32" doc:"account that is created on every node; default hpcadmin"`
	DeploySSHIface string `json:"deploy_ssh_iface" maxLength:"15" doc:"interface on which the node is reached first; default eno8303"`

	IssuerOrganisation string `json:"issuer_organisation,omitempty" maxLength:"200" doc:"organisation that issues the certificates of the site's machines; part of each new certificate"`
	IssuerContact      string `json:"issuer_contact,omitempty" maxLength:"200" doc:"contact for readers of a certificate: a person, a mail address or a telephone number"`
	IssuerTrustURL     string `json:"issuer_trust_url,omitempty" maxLength:"500" doc:"https URL where a reader of a certificate fetches the trust file"`

	CommissioningScripts []SiteScript `json:"commissioning_scripts" maxItems:"64" doc:"scripts of the site's owner that must be in MAAS as recorded"`
	DefaultProfileID     string       `json:"default_profile_id" maxLength:"63" doc:"a name is accepted in a change"`
	Reason               string       `json:"reason,omitempty" maxLength:"500" doc:"recorded in the audit log"`
}

// SiteScript is a script in MAAS by name and version.
type SiteScript struct {
	Name    string `json:"name" maxLength:"255"`
	Version string `json:"version" maxLength:"255" doc:"number or comment of the newest revision"`
}

// Site is one MAAS region controller. The paths say where its secrets are kept.
type Site struct {
	ID string `json:"id"`
	SiteConfig
	DefaultProfile             string    `json:"default_profile" doc:"the name of default_profile_id"`
	DeploySSHPublicKey         string    `json:"deploy_ssh_public_key,omitempty" doc:"generated with the first credentials"`
	APITokenVaultPath          string    `json:"api_token_vault_path"`
	DefaultPowerCredsVaultPath string    `json:"default_power_creds_vault_path"`
	DeployPasswordVaultPath    string    `json:"deploy_password_vault_path"`
	DeploySSHKeyVaultPath      string    `json:"deploy_ssh_key_vault_path"`
	APITokenSetAt              time.Time `json:"api_token_set_at,omitzero" doc:"left out: never"`
	DefaultPowerCredsSetAt     time.Time `json:"default_power_creds_set_at,omitzero"`
	DeployPasswordSetAt        time.Time `json:"deploy_password_set_at,omitzero" doc:"left out: the deploy user has no password"`
	CreatedAt                  time.Time `json:"created_at"`
	UpdatedAt                  time.Time `json:"updated_at"`
	Holds                      []Hold    `json:"holds,omitempty" doc:"freezes in force, including those of all sites, and whether the site is unreachable"`
}

// SiteList is every site that the caller may see, by name.
type SiteList struct {
	Standing
	Items []Site `json:"items"`
	Next  string `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}
