package api

import "time"

// SitePolicy is a profile's policy for onboarding, reimage and decommission. Its fields match the
// fields of broker.Policy.
type SitePolicy struct {
	DistroSeries string `json:"distro_series" maxLength:"127" doc:"empty: the site's, as the next four where they are left out"`
	Architecture string `json:"architecture" maxLength:"63"`
	PXEIface     string `json:"pxe_iface" maxLength:"15"`
	PXEVLANVID   *int   `json:"pxe_vlan_vid" minimum:"0" maximum:"4094" nullable:"true"`
	NodePXEIface string `json:"node_pxe_iface" maxLength:"15"`

	StrictPXEPreflight                   bool   `json:"strict_pxe_preflight" doc:"default true"`
	EnablePhase2RoCE                     bool   `json:"enable_phase2_roce" doc:"default true"`
	RequireHWSync                        bool   `json:"require_hw_sync" doc:"default true"`
	HardwareSyncInterval                 string `json:"hardware_sync_interval" maxLength:"32" doc:"a time of systemd; default 15m"`
	ReleaseFallbackNoErase               bool   `json:"release_fallback_no_erase" doc:"of a reimage, a release whose erase fails is done without: a recorded downgrade that blocks reuse; default true"`
	EnableDeployRetryOnDatasourceFailure bool   `json:"enable_deploy_retry_on_datasource_failure" doc:"default true"`
	MaxDeployRetryAttempts               int    `json:"max_deploy_retry_attempts" minimum:"0" maximum:"5" doc:"default 1"`
	AutoClaimSingleNewMachine            bool   `json:"auto_claim_single_new_machine" doc:"discovery may take the only machine that is New; default false"`
	BatchMaxParallel                     int    `json:"batch_max_parallel" minimum:"1" maximum:"500" doc:"default 10"`
	BatchStopAfterFailures               int    `json:"batch_stop_after_failures" minimum:"0" maximum:"500" doc:"so many in a row, at one stage and of one class, keep a batch from starting more; 0: never; default 3"`
	SiteBootstrapBundleRef               string `json:"site_bootstrap_bundle_ref" maxLength:"500" doc:"the site's own first-boot bundle, URL@sha256:DIGEST"`
	EnrollmentTokenTTLSeconds            int    `json:"enrollment_token_ttl_seconds" minimum:"600" maximum:"604800" doc:"default 7200"`

	InitializeExtraDisks     bool `json:"initialize_extra_disks" doc:"destroys what is on all disks but the root's; default false"`
	OverwriteKnownSignatures bool `json:"overwrite_known_signatures" doc:"also of a disk that holds something known; default false"`
	DiscoveryPowerCycle      bool `json:"discovery_power_cycle" doc:"discovery may switch a machine by MAAS's own power control; default false"`

	DiscoveryTimeoutSeconds          int `json:"discovery_timeout_seconds" minimum:"60" doc:"default 1800"`
	CommissionTimeoutSeconds         int `json:"commission_timeout_seconds" minimum:"60" doc:"default 3600"`
	DeployTimeoutSeconds             int `json:"deploy_timeout_seconds" minimum:"60" doc:"default 5400"`
	HardwareSyncSeedTimeoutSeconds   int `json:"hardware_sync_seed_timeout_seconds" minimum:"60" doc:"default 900"`
	HardwareSyncHealthTimeoutSeconds int `json:"hardware_sync_health_timeout_seconds" minimum:"60" doc:"at least one and a half intervals; default 2700"`
	AgentEnrollmentTimeoutSeconds    int `json:"agent_enrollment_timeout_seconds" minimum:"60" doc:"default 1800"`

	StageRetries        map[string]int `json:"stage_retries" doc:"how often a stage is tried again by itself; a change changes the stages that it names"`
	RetryBackoffSeconds int            `json:"retry_backoff_seconds" minimum:"1" maximum:"3600" doc:"before the first retry; it doubles; default 10"`

	TurnoverEnvironment     string `json:"turnover_environment" enum:"tenant_os,fresh_os" doc:"from where a node must have been looked at, at least, before it is handed out again; default tenant_os"`
	RootRequiresReimage     bool   `json:"root_requires_reimage" doc:"fresh_os is asked for after a tenant who had root; default true"`
	DiskGrade               string `json:"disk_grade" enum:"none,clear,purge" doc:"what must have been done to each disk, at least; default clear"`
	AcceptSystemDisk        bool   `json:"accept_system_disk" doc:"lets pass that files were deleted, or MAAS erased as it was asked, on the disk that the system runs from"`
	AcceptMAASErase         bool   `json:"accept_maas_erase" doc:"lets pass that MAAS erased a disk (erase secure), which nobody has read again; not that it could not; default true"`
	AcceptNetworkDisks      bool   `json:"accept_network_disks" doc:"lets pass that nothing was done to disks of a network or a hypervisor that were there when the node was let in"`
	GPUAllowUnverified      bool   `json:"gpu_allow_unverified" doc:"lets a GPU pass whose overwrite could not be verified"`
	GPURequireReset         bool   `json:"gpu_require_reset" doc:"asks for proof that each GPU was reset"`
	ReimageWhenSilent       bool   `json:"reimage_when_silent" doc:"a soft reset whose node does not answer the drain in time is cancelled, and the node reimaged, where MAAS has its machine"`
	SilentReimagesAtOnce    int    `json:"silent_reimages_at_once" minimum:"1" maximum:"500" doc:"such reimages at the site within an hour: when there would be more, none begins, and a person decides; default 3"`
	DrainTimeoutSeconds     int    `json:"drain_timeout_seconds" minimum:"1" maximum:"86400" doc:"after which an agent counts as silent; default 1800"`
	DrainGraceSeconds       int    `json:"drain_grace_seconds" minimum:"0" maximum:"300" doc:"between SIGTERM and SIGKILL; default 30"`
	CertificateValidSeconds int    `json:"certificate_valid_seconds" minimum:"60" maximum:"31536000" doc:"after which a clean certificate is stale; default a week"`

	AcceptEraseDowngrade string `json:"accept_erase_downgrade" enum:"never,none,clear,purge" doc:"lets a disk pass to which less was done than was asked for, or than it can, if that has at least this grade and was verified; none: whatever was done, and that MAAS released the machine without the erase that it could not make; default never"`

	ReportOnly []string `json:"report_only,omitempty" maxItems:"6" doc:"checks below the operating system that are told and do not keep a node from use, of bmc_users, bmc_lan, bmc_firmware, efi, firmware_versions, sriov; default none"`
}

// SiteProfileConfig is an operator's configuration of a profile. For omitted fields a create takes
// the defaults, and a change keeps the present values.
type SiteProfileConfig struct {
	Name        string `json:"name" maxLength:"63" doc:"never changes"`
	Description string `json:"description,omitempty" maxLength:"500"`
	Status      string `json:"status" enum:"active,disabled" doc:"default active"`
	SitePolicy
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"for the audit log"`
}

// SiteProfile is a named policy of a site.
type SiteProfile struct {
	ID      string `json:"id"`
	SiteID  string `json:"site_id"`
	Default bool   `json:"default" doc:"what holds where a run names no profile"`
	SiteProfileConfig
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// SiteProfileList is every profile of a site, by name.
type SiteProfileList struct {
	Standing
	Items []SiteProfile `json:"items"`
}
