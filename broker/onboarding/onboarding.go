package onboarding

import (
	"net"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

// Kind is the kind of runs that bring a machine from bare metal to an active node.
const Kind = broker.OnboardingKind

// Chains builds the lists of this package. One value serves a whole broker.
type Chains struct {
	Regions *maas.Sites
	Records Records
	Nodes   Nodes
	SSH     Seeder
}

// Onboarding is the state of a run. The state refers to secrets and holds none: neither the token
// nor the bundle nor a password is ever part of it.
type Onboarding struct {
	// The request. Policy and SKU are copies: a later change of either applies to later runs only.
	SiteID    string               `json:"site_id"`
	Site      string               `json:"site"`
	ProfileID string               `json:"profile_id"`
	Profile   string               `json:"profile"`
	Policy    broker.MachinePolicy `json:"policy"`
	SKU       broker.SKU           `json:"sku"`
	Hostname  string               `json:"hostname"`
	IPMIIP    string               `json:"ipmi_ip"`
	PXEMAC    string               `json:"pxe_mac,omitempty"`
	Place     broker.NodePlace     `json:"place,omitzero"`
	Adopts    string               `json:"adopts,omitempty"` // system_id of the deployed machine that an adoption is for
	// Keeps is the status in which the node stays while its machine is redeployed, because the
	// turnover that has the node lets it in later. Empty: the node is enrolling, and the last stage
	// activates the node.
	Keeps   broker.NodeStatus `json:"keeps,omitempty"`
	Reclaim *Reclaim          `json:"reclaim,omitempty"` // for a run over an existing node

	// Findings and actions of the run.
	MAASVersion   string        `json:"maas_version,omitempty"`
	MAASUser      string        `json:"maas_user,omitempty"`  // user of the site's token
	Created       bool          `json:"created,omitempty"`    // this run created the machine's record in MAAS
	PowerPath     string        `json:"power_path,omitempty"` // of the secret
	PowerFrom     string        `json:"power_from,omitempty"` // default, or the selector of the override
	SystemID      string        `json:"maas_system_id,omitempty"`
	BootDisk      *Device       `json:"boot_disk,omitempty"`
	Disks         []Device      `json:"disks,omitempty"`
	RoCEAddresses int           `json:"roce_addresses,omitempty"`
	NodeID        string        `json:"node_id,omitempty"`
	BundleDigest  string        `json:"bundle_digest,omitempty"`
	Epoch         int64         `json:"epoch,omitempty"` // of the node, when its machine was deployed: the agent enrols with a later epoch
	Claim         *Claim        `json:"claim,omitempty"`
	ErasedTill    time.Time     `json:"erased_till,omitzero"`     // when the machine was last seen erasing its disks
	Erased        time.Duration `json:"erased,omitempty"`         // total time of erasing, nanoseconds; no limit counts it
	Deploys       int           `json:"deploys,omitempty"`        // deployments requested
	DeployRetries int           `json:"deploy_retries,omitempty"` // redeployments after a failure that a rescue recovered from
	DeployFailure string        `json:"deploy_failure,omitempty"` // datasource_like, generic

	DeployedAt   time.Time `json:"deployed_at,omitzero"`   // when the machine was first seen Deployed
	SyncBaseline time.Time `json:"sync_baseline,omitzero"` // only a later last_sync is the host's own
	SSH          SSHSeed   `json:"ssh,omitzero"`
	EnrollAsked  int       `json:"enroll_asked,omitempty"` // the attempt for which EnrollSince was set
	EnrollSince  time.Time `json:"enroll_since,omitzero"`  // start of the wait of this attempt
	Failed       string    `json:"failed,omitempty"`       // what a person must repair before MAAS looks at the machine again
	Recommission bool      `json:"recommission,omitempty"` // MAAS shall look at the machine again now
	Powered      bool      `json:"powered,omitempty"`      // this run has had the machine's power switched
	Owner        string    `json:"owner,omitempty"`        // of the machine in MAAS, when an adoption found it
	Mismatch     string    `json:"mismatch,omitempty"`     // why the machine of an adoption's agent is not the expected one

	// MAAS's latest report, for people.
	Seen     Observed `json:"seen"`
	Warnings []string `json:"warnings,omitempty"`
}

// Claim is a run's intent to take a machine. The claim is saved before the run takes the machine,
// and later proves the taking by this run.
type Claim struct {
	SystemID string    `json:"system_id"`
	NodeID   string    `json:"node_id"`
	User     string    `json:"user"` // MAAS user that allocates
	At       time.Time `json:"at"`
	Released bool      `json:"released,omitempty"` // MAAS was asked to take the machine back
	Unheard  time.Time `json:"unheard,omitzero"`   // time of the latest change request without an answer
}

// Observed is a machine as MAAS reported it.
type Observed struct {
	Status     string    `json:"status,omitempty"` // status_name
	Power      string    `json:"power,omitempty"`
	IPs        []string  `json:"ips,omitempty"`
	Owner      string    `json:"owner,omitempty"`
	LastSync   time.Time `json:"last_sync,omitzero"`
	ObservedAt time.Time `json:"observed_at,omitzero"`
}

// Request is an operator's description of a machine.
type Request struct {
	Hostname string
	IPMIIP   string
	PXEMAC   string // optional
	Place    broker.NodePlace
}

// New returns the first state of a run and the locks that the run needs. Codes: onboarding_invalid,
// site_disabled, profile_disabled.
func New(site broker.Site, profile broker.Profile, sku broker.SKU, req Request) (Onboarding, []string, error) {
	bad := func(format string, args ...any) (Onboarding, []string, error) {
		return Onboarding{}, nil, broker.Errorf(broker.Invalid, "onboarding_invalid", "cannot onboard: "+format, args...)
	}
	hostname, ok := broker.CanonicalHostname(req.Hostname)
	if !ok {
		return bad("%q is not a valid hostname", taskcatalog.Clean(req.Hostname, 100))
	}
	ip, err := broker.ParseIP(req.IPMIIP)
	if err != nil || ip.Zone() != "" || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLoopback() {
		return bad("the ipmi_ip of %s is not an address of a BMC", hostname)
	}
	mac := ""
	if req.PXEMAC != "" {
		m, err := net.ParseMAC(req.PXEMAC)
		if err != nil || len(m) != 6 {
			return bad("the pxe_mac of %s is not a MAC address", hostname)
		}
		mac = m.String()
	}
	if err := req.Place.Check(); err != nil {
		return bad("%s: %s", hostname, broker.AsError(err).Message)
	}
	switch {
	case profile.SiteID != site.ID:
		return bad("site %s has no profile %s", site.Name, profile.Name)
	case sku.ID == "":
		return bad("%s needs a SKU", hostname)
	case site.Status != broker.SiteActive:
		return Onboarding{}, nil, broker.Errorf(broker.Refused, "site_disabled",
			"cannot onboard %s: site %s is %s (hostler site enable %s)", hostname, site.Name, site.Status, site.Name)
	case profile.Status != broker.SiteActive:
		return Onboarding{}, nil, broker.Errorf(broker.Refused, "profile_disabled", "cannot onboard %s: profile %s is %s", hostname,
			profile.Name, profile.Status)
	}
	s := Onboarding{
		SiteID: site.ID, Site: site.Name, ProfileID: profile.ID, Profile: profile.Name,
		Policy: site.PolicyOf(profile).MachinePolicy, SKU: sku,
		Hostname: hostname, IPMIIP: ip.Unmap().String(), PXEMAC: mac, Place: req.Place,
	}
	return s, []string{"hostname/" + s.Site + "/" + s.Hostname, "ipmi/" + s.Site + "/" + s.IPMIIP}, nil
}

type stage = chain.Stage[Onboarding]

// form is the form of the state of both lists. Form 1 has the node's place.
const form = 1

// Onboarding is the list of stages from a machine's BMC to an active node.
func (c *Chains) Onboarding() chain.Chain[Onboarding] {
	return chain.Chain[Onboarding]{
		Kind: Kind, Form: form, Probe: c.Probe, Failing: c.diagnose,
		Stages: slices.Concat([]stage{c.LoadSite()}, c.classifyFaults([]stage{
			{Name: "resolve_power_credentials", Do: c.resolvePower, Retry: retries("resolve_power_credentials"), Limit: within(records)},
			{
				Name: "create_or_find_in_maas", Do: c.createOrFind, Retry: retries("create_or_find_in_maas"), Limit: discoveryLimit,
				About: aboutFind,
			},
			{Name: "commission_node", Do: c.commission, Retry: retries("commission_node"), Limit: discoveryLimit, About: aboutCommission},
			{Name: "wait_for_ready", Do: c.waitForReady, Limit: commissionLimit, About: expected(8 * time.Minute)},
		}), c.Redeployment()),
	}
}

// LoadSite is the first stage of every list that works at a site.
func (c *Chains) LoadSite() chain.Stage[Onboarding] {
	return c.classifyFaults([]stage{{
		Name: "load_site_config", Do: c.loadSiteConfig, Retry: retries("load_site_config"),
		Limit: within(records),
	}})[0]
}

// Redeployment is the part of the list from a Ready machine to a node with an enrolled agent. All
// runs that deploy a machine use these stages.
func (c *Chains) Redeployment() []chain.Stage[Onboarding] {
	return c.classifyFaults([]stage{
		{
			Name: "configure_storage", Do: c.configureStorage, Retry: retries("configure_storage"), Limit: commissionLimit,
			About: aboutStorage,
		},
		{
			Name: "apply_roce_phase2", Done: c.noRoCE, Do: c.applyRoCE, Retry: retries("apply_roce_phase2"), Limit: within(records),
			Optional: true, About: aboutRoCE,
		},
		{
			Name: "ensure_pxe_interface_auto", Do: c.ensurePXE, Retry: retries("ensure_pxe_interface_auto"), Limit: within(records),
			About: aboutPXE,
		},
		{
			Name: "render_cloud_init", Do: c.renderCloudInit, Undo: c.forgetNode, Retry: retries("render_cloud_init"),
			Limit: within(records),
			About: aboutRender,
		},
		{
			Name: "deploy_via_maas", Done: c.deployAccepted, Do: c.deploy, Undo: c.release, Retry: retries("deploy_via_maas"),
			Limit: releaseLimit, About: aboutDeploy,
		},
		{
			Name: "wait_for_deployed", Do: c.waitForDeployed, Limit: deployLimit, Pivot: true, About: expected(12 * time.Minute),
			Rescue: []stage{
				{Name: "classify_deploy_failure", Do: c.classifyDeployFailure, Limit: classifyLimit},
				{
					Name: "recover_for_datasource_retry", Do: c.recoverForRedeploy, Retry: retries("recover_for_datasource_retry"),
					Limit: releaseLimit, Then: "deploy_via_maas", About: aboutRecover,
				},
			},
		},
		{
			Name: "ensure_hardware_sync_configured", Done: c.noTokenWanted, Do: c.ensureSync, Undo: c.keepFromUse, Limit: seedLimit,
			About: aboutSync,
		},
		{
			Name: "wait_for_hardware_sync_healthy", Done: c.noSyncWanted, Do: c.waitForSync, Limit: healthLimit,
			About: expected(15 * time.Minute),
		},
		{
			Name: "wait_for_agent_enrollment", Do: c.waitForAgent, Retry: retries("wait_for_agent_enrollment"), Limit: enrollmentLimit,
			About: expected(2 * time.Minute),
		},
	})
}
