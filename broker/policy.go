package broker

import "time"

// Policy holds the settings of a profile: the knobs of onboarding, reimage and decommission, in
// groups by what the knobs steer. The JSON form of a policy is flat.
//
// A knob is one field, and its tags are its whole declaration: unit, default, bounds and help. From
// the tags come DefaultPolicy, Profile.Check, the API's description, the listing of hostler site
// profile explain, and docs/reference/policy.md. See Knob for the tags.
type Policy struct {
	MachinePolicy
	AutomaticPolicy `title:"Turnover after a tenant"`
	ModePolicy      `title:"Mode of a turnover after a tenant"`
	PlacementPolicy `title:"Placement of allocations"`
	ProvisionPolicy `title:"Provision for a tenant"`
	ReleasePolicy   `title:"Release of an allocation"`
}

// MachinePolicy is the part of a policy that an onboarding or a reimage copies when it starts. A new
// group here is a new member of the state of runs.
type MachinePolicy struct {
	SystemPolicy       `title:"System and network boot"`
	DiscoveryPolicy    `title:"Discovery"`
	DeploymentPolicy   `title:"Commissioning, deployment and release"`
	HardwareSyncPolicy `title:"Hardware sync"`
	FirstBootPolicy    `title:"First boot and enrolment"`
	RunPolicy          `title:"Batches and retries"`
	TurnoverRules
}

// TurnoverRules are the groups of a policy about the time between two tenants. A turnover copies
// the rules: see TurnoverPolicy.
type TurnoverRules struct {
	InspectionPolicy  `title:"Inspection between two tenants"`
	DiskPolicy        `title:"Disks between two tenants"`
	GPUPolicy         `title:"GPUs between two tenants"`
	SilencePolicy     `title:"Silent nodes"`
	DrainPolicy       `title:"Drain"`
	CertificatePolicy `title:"Clean certificate"`
}

// SystemPolicy says what is deployed and from where a machine boots.
type SystemPolicy struct {
	DistroSeries string `json:"distro_series" unit:"image" default:"" maxLength:"127" accepts:"series" doc:"System that MAAS deploys. Empty: the site's."`
	Architecture string `json:"architecture" unit:"architecture" default:"" maxLength:"63" accepts:"architecture" doc:"Architecture of the machines. Empty: the site's."`
	PXEIface     string `json:"pxe_iface" unit:"interface" default:"" maxLength:"15" accepts:"interface" doc:"Interface of the MAAS server for network boot. Empty: the site's."`
	PXEVLANVID   *int   `json:"pxe_vlan_vid" unit:"VLAN id" default:"" minimum:"0" maximum:"4094" nullable:"true" doc:"VLAN of network boot; 0 is untagged. Unset: the site's."`
	NodePXEIface string `json:"node_pxe_iface" unit:"interface" default:"" maxLength:"15" accepts:"interface" doc:"Interface of a node for network boot. Empty: the site's."`

	StrictPXEPreflight bool `json:"strict_pxe_preflight" default:"true" doc:"A PXE interface that cannot be repaired stops the run before the deployment."`
}

// DiscoveryPolicy steers how a new machine is found in MAAS.
type DiscoveryPolicy struct {
	AutoClaimSingleNewMachine bool `json:"auto_claim_single_new_machine" default:"false" doc:"Discovery may take the only machine with the status New, even if nothing else points to that machine."`
	DiscoveryPowerCycle       bool `json:"discovery_power_cycle" default:"false" doc:"Discovery may switch a machine through MAAS's power control. Without it, an operator switches the machine."`
	DiscoveryTimeoutSeconds   int  `json:"discovery_timeout_seconds" unit:"seconds" default:"1800" minimum:"60" maximum:"86400" doc:"How long a run waits until MAAS has discovered the machine."`
}

// DeploymentPolicy steers what a run asks of MAAS. The timeouts are longer than MAAS's own
// timeouts, so that MAAS is the first to report the cause.
type DeploymentPolicy struct {
	CommissionTimeoutSeconds int `json:"commission_timeout_seconds" unit:"seconds" default:"3600" minimum:"60" maximum:"86400" doc:"How long MAAS may commission a machine."`

	InitializeExtraDisks     bool `json:"initialize_extra_disks" default:"false" doc:"Consents to the destruction of all data on all disks but the root disk."`
	OverwriteKnownSignatures bool `json:"overwrite_known_signatures" default:"false" doc:"Extends that consent to disks with a known signature. Needs initialize_extra_disks."`

	EnablePhase2RoCE                     bool `json:"enable_phase2_roce" default:"true" doc:"Gives RoCE interfaces their recorded addresses before the deployment."`
	DeployTimeoutSeconds                 int  `json:"deploy_timeout_seconds" unit:"seconds" default:"5400" minimum:"60" maximum:"86400" doc:"How long MAAS may deploy a machine."`
	EnableDeployRetryOnDatasourceFailure bool `json:"enable_deploy_retry_on_datasource_failure" default:"true" doc:"Deploys again after a failure of the datasource or of cloud-init."`
	MaxDeployRetryAttempts               int  `json:"max_deploy_retry_attempts" unit:"deployments" default:"1" minimum:"0" maximum:"5" doc:"Limit of such further deployments."`
	ReleaseFallbackNoErase               bool `json:"release_fallback_no_erase" default:"true" doc:"A reimage whose release fails to erase releases without an erase. The downgrade is recorded and blocks reuse."`
}

// HardwareSyncPolicy steers MAAS's hardware sync.
type HardwareSyncPolicy struct {
	RequireHWSync                    bool   `json:"require_hw_sync" default:"true" doc:"An onboarding sets hardware sync up and waits for the first sync."`
	HardwareSyncInterval             string `json:"hardware_sync_interval" unit:"time" default:"15m" maxLength:"32" accepts:"interval" doc:"Time between two syncs. MAAS has one interval for the whole region."`
	HardwareSyncSeedTimeoutSeconds   int    `json:"hardware_sync_seed_timeout_seconds" unit:"seconds" default:"900" minimum:"60" maximum:"86400" doc:"How long a run waits until hardware sync is set up on the machine."`
	HardwareSyncHealthTimeoutSeconds int    `json:"hardware_sync_health_timeout_seconds" unit:"seconds" default:"2700" minimum:"60" maximum:"259200" doc:"How long a run waits for the first sync. At least one and a half intervals, which MAAS allows a sync."`
}

// FirstBootPolicy steers the time from the deployment until the agent is enrolled.
type FirstBootPolicy struct {
	SiteBootstrapBundleRef        string `json:"site_bootstrap_bundle_ref" unit:"URL" default:"" maxLength:"500" accepts:"bundle" doc:"The site's own first-boot bundle. Empty: none."`
	EnrollmentTokenTTLSeconds     int    `json:"enrollment_token_ttl_seconds" unit:"seconds" default:"7200" minimum:"600" maximum:"604800" doc:"Life of an enrolment token. At least deploy_timeout_seconds and agent_enrollment_timeout_seconds together."`
	AgentEnrollmentTimeoutSeconds int    `json:"agent_enrollment_timeout_seconds" unit:"seconds" default:"1800" minimum:"60" maximum:"86400" doc:"How long a run waits until the agent of a deployed machine is enrolled."`
}

// RunPolicy steers batches, and the retries of a run's stages.
type RunPolicy struct {
	BatchMaxParallel       int            `json:"batch_max_parallel" unit:"runs" default:"10" minimum:"1" maximum:"500" doc:"Runs of a batch at the same time."`
	BatchStopAfterFailures int            `json:"batch_stop_after_failures" unit:"failures" default:"3" minimum:"0" maximum:"500" doc:"Consecutive failures, at the same stage and of the same class, that keep a batch from starting further runs; 0: no number does."`
	StageRetries           map[string]int `json:"stage_retries" unit:"retries" accepts:"retries" doc:"Automatic retries of each stage. A change keeps the stages that it does not name."`
	RetryBackoffSeconds    int            `json:"retry_backoff_seconds" unit:"seconds" default:"10" minimum:"1" maximum:"3600" doc:"Time before the first retry of a stage; doubles with each further retry."`
}

// InspectionPolicy says from where a node must have been inspected.
type InspectionPolicy struct {
	TurnoverEnvironment string `json:"turnover_environment" unit:"environment" default:"tenant_os" enum:"tenant_os,fresh_os" doc:"Weakest system from which the node may be inspected before the next tenant."`
	RootRequiresReimage bool   `json:"root_requires_reimage" default:"true" doc:"Requires fresh_os after a tenant who had root."`
}

// DiskPolicy says what must have been done to disks. The certificate states each accepted
// weakness as a downgrade.
type DiskPolicy struct {
	DiskGrade string `json:"disk_grade" unit:"grade" default:"clear" enum:"none,clear,purge" doc:"Least sanitisation of each disk, in the words of NIST SP 800-88."`
	// AcceptSystemDisk is about the disk that the system runs from, which cannot be erased under a
	// running system: files are deleted and blocks trimmed, or MAAS does as asked. Neither
	// AcceptSystemDisk nor AcceptMAASErase accepts a machine that MAAS released without an erase:
	// see AcceptEraseDowngrade.
	AcceptSystemDisk   bool `json:"accept_system_disk" default:"false" doc:"Accepts deleted files, or MAAS's erase as requested, on the disk that the system runs from."`
	AcceptMAASErase    bool `json:"accept_maas_erase" default:"true" doc:"Accepts MAAS's statement that it erased a disk (erase secure) without a read-back. Never accepts a failed erase."`
	AcceptNetworkDisks bool `json:"accept_network_disks,omitempty" required:"true" default:"false" doc:"Accepts that disks on record as a network's or a hypervisor's are left untouched."`
}

// GPUPolicy says what must have been done to GPUs.
type GPUPolicy struct {
	GPUAllowUnverified bool `json:"gpu_allow_unverified" default:"false" doc:"Accepts a GPU whose overwrite could not be verified."`
	GPURequireReset    bool `json:"gpu_require_reset" default:"false" doc:"Requires proof that each GPU was reset."`
}

// SilencePolicy steers what follows if a node does not answer the drain of a soft reset.
type SilencePolicy struct {
	ReimageWhenSilent bool `json:"reimage_when_silent,omitempty" required:"true" default:"false" doc:"Cancels a soft reset whose node does not answer the drain, and reimages the node, if MAAS manages the machine."`
	// SilentReimagesAtOnce is zero in a profile that is older than the knob: see silentReimages.
	SilentReimagesAtOnce int `json:"silent_reimages_at_once,omitempty" required:"true" unit:"reimages" default:"3" minimum:"1" maximum:"500" doc:"Limit of such reimages at the site within an hour. Above the limit none begins, and a person decides."`
}

// DrainPolicy steers the end of a tenant's processes.
type DrainPolicy struct {
	DrainTimeoutSeconds int `json:"drain_timeout_seconds" unit:"seconds" default:"1800" minimum:"1" maximum:"86400" doc:"How long a run waits for the agent's answer. An agent without an answer by then counts as silent."`
	DrainGraceSeconds   int `json:"drain_grace_seconds" unit:"seconds" default:"30" minimum:"0" maximum:"300" doc:"Time between SIGTERM and SIGKILL."`
}

// CertificatePolicy says what a clean certificate may state, and for how long.
type CertificatePolicy struct {
	CertificateValidSeconds int `json:"certificate_valid_seconds" unit:"seconds" default:"604800" minimum:"60" maximum:"31536000" doc:"Time after which a clean certificate is stale. A shorter time counts for the certificates that there are, a longer one for later ones."`
	// AcceptEraseDowngrade is empty in a profile that is older than the knob; empty means never.
	AcceptEraseDowngrade string `json:"accept_erase_downgrade" unit:"grade" default:"never" enum:"never,none,clear,purge" doc:"Accepts a disk with less than was requested or than the disk supports, if the treatment was verified and has at least this grade. none accepts every downgrade, also a release by MAAS without the erase."`
	// ReportOnly is empty by default: a version that changed during a tenancy may be an implant,
	// and a component that could not be inspected does not count as clean.
	ReportOnly []string `json:"report_only,omitempty" unit:"checks" default:"" maxItems:"6" accepts:"checks" doc:"Checks below the operating system that are reported without keeping a node from use."`
}

// AutomaticPolicy says whether a turnover follows a tenant by itself.
type AutomaticPolicy struct {
	TurnoverAutomatic        bool `json:"turnover_automatic" default:"true" doc:"Begins a turnover of an active node whose tenants have left, or of an unused node whose certificate has run out, soon does or no longer suffices by the policy, without a request."`
	AutomaticTurnoversAtOnce int  `json:"automatic_turnovers_at_once" unit:"turnovers" default:"10" minimum:"1" maximum:"500" doc:"Limit of turnovers at the site that have not ended: these, those of released allocations, and reimages for an allocation's image. At the limit none begins, and those that are due wait."`
}

// ModePolicy says which turnovers that nobody requests are reimages, also where a soft reset would meet the
// policy. If one rule asks for a reimage, the turnover is one.
type ModePolicy struct {
	ReimageSKUs    []string `json:"reimage_skus,omitempty" unit:"SKUs" default:"" maxItems:"64" accepts:"skus" doc:"SKUs whose nodes are reimaged by each such turnover."`
	ReimageTenants []string `json:"reimage_tenants,omitempty" unit:"tenants" default:"" maxItems:"256" accepts:"tenants" doc:"Projects, and organisations with all their projects, after which a node is reimaged."`
	ReimageEvery   int      `json:"reimage_every" unit:"turnovers" default:"0" minimum:"0" maximum:"1000" doc:"Which turnover since a node's last reimage is a reimage: 1 is each, 3 is every third; 0: none because of its number. A turnover counts once it has a certificate."`
}

// PlacementPolicy steers which free nodes an allocation gets. The policy of the site's default profile counts.
type PlacementPolicy struct {
	PlacementOrder string `json:"placement_order" unit:"order" default:"node_id" enum:"node_id,newest_certificate,least_used" doc:"Which of the free nodes are given first: by their ids, those with the newest clean certificate, or those with the fewest allocations so far. Counts in the site's default profile."`
}

// ProvisionPolicy steers what follows when a node cannot be provisioned.
type ProvisionPolicy struct {
	ProvisionFailuresToHold int `json:"provision_failures_to_hold" unit:"failures" default:"2" minimum:"1" maximum:"100" doc:"Failures in a row to provision a node, because of the node, from which the node is handed to nobody until a person activates it."`
}

// ReleasePolicy steers a release that cannot go on.
type ReleasePolicy struct {
	EndOperationPassAfter string `json:"end_operation_pass_after" unit:"time" default:"2h" maxLength:"32" accepts:"passing" doc:"Time since the begin of a release after which it goes on without the operation that the SKU names for the end, if that did not end well. The nodes are then reimaged where MAAS has them. never: it waits for a person. Counts in the site's default profile."`
}

// Never is the value of a time that never comes.
const Never = "never"

// The bounds of end_operation_pass_after.
const (
	leastPassing = 10 * time.Minute
	mostPassing  = 30 * 24 * time.Hour
)

// passingForm reports whether a text is a value of end_operation_pass_after.
func passingForm(text string) bool {
	if text == Never {
		return true
	}
	d, err := time.ParseDuration(text)
	return err == nil && d >= leastPassing && d <= mostPassing
}

// PassesAt is when a release that began at a time goes on without the operation of its end, if that did not end well; zero:
// never. A value that cannot be read, such as the empty one of an older profile, is the default's.
func (p ReleasePolicy) PassesAt(begun time.Time) time.Time {
	text := p.EndOperationPassAfter
	if !passingForm(text) {
		text = DefaultPolicy().EndOperationPassAfter
	}
	if text == Never {
		return time.Time{}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return time.Time{}
	}
	return begun.Add(d)
}

// defaultRetries is the default of stage_retries, which a tag cannot hold.
var defaultRetries = map[string]int{
	"load_site_config": 3, "create_or_find_in_maas": 3, "commission_node": 3, "ensure_pxe_interface_auto": 1,
	"deploy_via_maas": 2, "recover_for_datasource_retry": 1, "wait_for_agent_enrollment": 1,
}
