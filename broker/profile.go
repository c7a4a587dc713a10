package broker

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// DefaultProfile is the name of the profile that is created with a site.
const DefaultProfile = "default"

// Profile is a named set of policies at a site. A run copies the policy when it starts.
type Profile struct {
	ID, SiteID  string
	Name        string
	Description string
	Status      SiteStatus
	Policy      Policy
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Policy holds the settings of a profile for onboarding, reimage and decommission. The first five
// override the site's settings where they are set.
type Policy struct {
	DistroSeries string `json:"distro_series"`
	Architecture string `json:"architecture"`
	PXEIface     string `json:"pxe_iface"`
	PXEVLANVID   *int   `json:"pxe_vlan_vid"`
	NodePXEIface string `json:"node_pxe_iface"`

	StrictPXEPreflight                   bool   `json:"strict_pxe_preflight"`
	EnablePhase2RoCE                     bool   `json:"enable_phase2_roce"`
	RequireHWSync                        bool   `json:"require_hw_sync"`
	HardwareSyncInterval                 string `json:"hardware_sync_interval"`
	ReleaseFallbackNoErase               bool   `json:"release_fallback_no_erase"`
	EnableDeployRetryOnDatasourceFailure bool   `json:"enable_deploy_retry_on_datasource_failure"`
	MaxDeployRetryAttempts               int    `json:"max_deploy_retry_attempts"`
	AutoClaimSingleNewMachine            bool   `json:"auto_claim_single_new_machine"`
	BatchMaxParallel                     int    `json:"batch_max_parallel"`
	// BatchStopAfterFailures is how many failures in a row, at the same stage and of the same
	// class, keep a batch from starting further nodes.
	BatchStopAfterFailures    int    `json:"batch_stop_after_failures"`
	SiteBootstrapBundleRef    string `json:"site_bootstrap_bundle_ref"`
	EnrollmentTokenTTLSeconds int    `json:"enrollment_token_ttl_seconds"`

	// InitializeExtraDisks consents to the destruction of all data on all disks but the root
	// disk. With OverwriteKnownSignatures, the consent includes disks with a known signature.
	InitializeExtraDisks     bool `json:"initialize_extra_disks"`
	OverwriteKnownSignatures bool `json:"overwrite_known_signatures"`
	// DiscoveryPowerCycle lets discovery switch a machine through MAAS's power control; without
	// DiscoveryPowerCycle, an operator switches the machine.
	DiscoveryPowerCycle bool `json:"discovery_power_cycle"`

	DiscoveryTimeoutSeconds          int `json:"discovery_timeout_seconds"`
	CommissionTimeoutSeconds         int `json:"commission_timeout_seconds"`
	DeployTimeoutSeconds             int `json:"deploy_timeout_seconds"`
	HardwareSyncSeedTimeoutSeconds   int `json:"hardware_sync_seed_timeout_seconds"`
	HardwareSyncHealthTimeoutSeconds int `json:"hardware_sync_health_timeout_seconds"`
	AgentEnrollmentTimeoutSeconds    int `json:"agent_enrollment_timeout_seconds"`

	// StageRetries is how often each stage is retried automatically.
	StageRetries        map[string]int `json:"stage_retries"`
	RetryBackoffSeconds int            `json:"retry_backoff_seconds"` // before the first retry; doubles each time

	// The requirements on the time between two tenants: see TurnoverPolicy.
	TurnoverEnvironment     string `json:"turnover_environment"`
	RootRequiresReimage     bool   `json:"root_requires_reimage"`
	DiskGrade               string `json:"disk_grade"`
	AcceptSystemDisk        bool   `json:"accept_system_disk"`
	AcceptMAASErase         bool   `json:"accept_maas_erase"`
	AcceptNetworkDisks      bool   `json:"accept_network_disks,omitempty"`
	GPUAllowUnverified      bool   `json:"gpu_allow_unverified"`
	GPURequireReset         bool   `json:"gpu_require_reset"`
	ReimageWhenSilent       bool   `json:"reimage_when_silent,omitempty"`
	SilentReimagesAtOnce    int    `json:"silent_reimages_at_once,omitempty"` // 0, of an older profile: the default
	DrainTimeoutSeconds     int    `json:"drain_timeout_seconds"`
	DrainGraceSeconds       int    `json:"drain_grace_seconds"`
	CertificateValidSeconds int    `json:"certificate_valid_seconds"`

	AcceptEraseDowngrade string `json:"accept_erase_downgrade"`

	ReportOnly []string `json:"report_only,omitempty"`
}

// DefaultPolicy is the policy of a new profile. The timeouts are longer than MAAS's own timeouts,
// so that MAAS is the first to report the cause.
func DefaultPolicy() Policy {
	return Policy{
		StrictPXEPreflight: true, EnablePhase2RoCE: true, RequireHWSync: true, HardwareSyncInterval: "15m",
		ReleaseFallbackNoErase: true, EnableDeployRetryOnDatasourceFailure: true, MaxDeployRetryAttempts: 1,
		BatchMaxParallel: 10, BatchStopAfterFailures: 3, EnrollmentTokenTTLSeconds: 7200,
		DiscoveryTimeoutSeconds: 1800, CommissionTimeoutSeconds: 3600, DeployTimeoutSeconds: 5400,
		HardwareSyncSeedTimeoutSeconds: 900, HardwareSyncHealthTimeoutSeconds: 2700, AgentEnrollmentTimeoutSeconds: 1800,
		StageRetries: map[string]int{
			"load_site_config": 3, "create_or_find_in_maas": 3, "commission_node": 3, "ensure_pxe_interface_auto": 1,
			"deploy_via_maas": 2, "recover_for_datasource_retry": 1, "wait_for_agent_enrollment": 1,
		},
		RetryBackoffSeconds: 10,
		TurnoverEnvironment: "tenant_os", RootRequiresReimage: true, DiskGrade: "clear", AcceptMAASErase: true, SilentReimagesAtOnce: 3,
		DrainTimeoutSeconds: 1800, DrainGraceSeconds: 30, CertificateValidSeconds: 7 * 24 * 3600,
		AcceptEraseDowngrade: "never",
	}
}

// NewProfile is an active profile with the default policy.
func NewProfile(id, siteID, name string) Profile {
	return Profile{ID: id, SiteID: siteID, Name: name, Status: SiteActive, Policy: DefaultPolicy()}
}

var bundleForm = regexp.MustCompile(`^https?://[^\s@?#]{1,400}@sha256:[0-9a-f]{64}$`)

// Check refuses an invalid profile. Code: profile_invalid.
func (p *Profile) Check() error {
	bad := func(format string, args ...any) error {
		return Errorf(Invalid, "profile_invalid", "cannot keep profile %s: "+format, append([]any{said(p.Name)}, args...)...)
	}
	q := &p.Policy
	switch {
	case !SiteNameForm.MatchString(p.Name) || idForm.MatchString(p.Name):
		return bad("its name is 1 to 63 of a-z, 0-9 and '-', and no id")
	case len(p.Description) > 500 || taskcatalog.Clean(p.Description, 1000) != p.Description:
		return bad("its description is too long or has control characters")
	case p.Status != SiteActive && p.Status != SiteDisabled:
		return bad("status %q is neither active nor disabled", said(string(p.Status)))
	case q.DistroSeries != "" && !seriesForm.MatchString(q.DistroSeries):
		return bad("distro_series %q is not one, such as ubuntu/noble or custom/IMAGE", said(q.DistroSeries))
	case q.Architecture != "" && !archForm.MatchString(q.Architecture):
		return bad("architecture %q is not one, such as amd64/generic", said(q.Architecture))
	case q.PXEIface != "" && !ifaceForm.MatchString(q.PXEIface):
		return bad("pxe_iface %q is no interface", said(q.PXEIface))
	case q.NodePXEIface != "" && !ifaceForm.MatchString(q.NodePXEIface):
		return bad("node_pxe_iface %q is no interface", said(q.NodePXEIface))
	case q.PXEVLANVID != nil && (*q.PXEVLANVID < 0 || *q.PXEVLANVID > maxVLAN):
		return bad("pxe_vlan_vid %d is not between 0 (untagged) and %d", *q.PXEVLANVID, maxVLAN)
	case q.SiteBootstrapBundleRef != "" && !bundleForm.MatchString(q.SiteBootstrapBundleRef):
		return bad("site_bootstrap_bundle_ref is not written URL@sha256:DIGEST")
	case q.OverwriteKnownSignatures && !q.InitializeExtraDisks:
		return bad("overwrite_known_signatures means nothing without initialize_extra_disks")
	}
	if why := q.Turnover().wrong(); why != "" {
		return bad("%s", why)
	}
	interval, err := SyncInterval(q.HardwareSyncInterval)
	if err != nil {
		return bad("%v", err)
	}
	for _, f := range q.figures() {
		if f.value < f.least || f.value > f.most {
			return bad("%s is %d, and not between %d and %d", f.name, f.value, f.least, f.most)
		}
	}
	for _, stage := range slices.Sorted(maps.Keys(q.StageRetries)) {
		if !slices.Contains(RetriedStages(), stage) {
			return bad("stage_retries names %q, which is no stage that is tried again (those are %s)", said(stage), strings.Join(RetriedStages(), ", "))
		}
		if n := q.StageRetries[stage]; n < 0 || n > 20 {
			return bad("stage_retries of %s is %d, and not between 0 and 20", stage, n)
		}
	}
	switch {
	case q.EnrollmentTokenTTLSeconds < q.DeployTimeoutSeconds+q.AgentEnrollmentTimeoutSeconds:
		return bad("enrollment_token_ttl_seconds is %d: a token must outlive the deployment and the first boot, %d s", q.EnrollmentTokenTTLSeconds, q.DeployTimeoutSeconds+q.AgentEnrollmentTimeoutSeconds)
	case q.RequireHWSync && 2*q.HardwareSyncHealthTimeoutSeconds < 3*int(interval.Seconds()):
		return bad("hardware_sync_health_timeout_seconds is %d: MAAS allows a sync one and a half intervals, %d s", q.HardwareSyncHealthTimeoutSeconds, 3*int(interval.Seconds())/2)
	}
	return nil
}

// figure is a number with its bounds.
type figure struct {
	name               string
	value, least, most int
}

func (q *Policy) figures() []figure {
	const day = 24 * 3600
	return []figure{
		{"max_deploy_retry_attempts", q.MaxDeployRetryAttempts, 0, 5},
		{"batch_max_parallel", q.BatchMaxParallel, 1, 500},
		{"batch_stop_after_failures", q.BatchStopAfterFailures, 0, 500},
		{"enrollment_token_ttl_seconds", q.EnrollmentTokenTTLSeconds, 600, 7 * day},
		{"discovery_timeout_seconds", q.DiscoveryTimeoutSeconds, 60, day},
		{"commission_timeout_seconds", q.CommissionTimeoutSeconds, 60, day},
		{"deploy_timeout_seconds", q.DeployTimeoutSeconds, 60, day},
		{"hardware_sync_seed_timeout_seconds", q.HardwareSyncSeedTimeoutSeconds, 60, day},
		{"hardware_sync_health_timeout_seconds", q.HardwareSyncHealthTimeoutSeconds, 60, 3 * day},
		{"agent_enrollment_timeout_seconds", q.AgentEnrollmentTimeoutSeconds, 60, day},
		{"retry_backoff_seconds", q.RetryBackoffSeconds, 1, 3600},
		{"silent_reimages_at_once", q.silentReimages(), 1, 500},
	}
}

var systemdMinutes = strings.NewReplacer("minutes", "m", "minute", "m", "min", "m", "hours", "h", "hour", "h", "hr", "h", "seconds", "s", "second", "s", "sec", "s", " ", "")

// SyncInterval reads an interval in systemd's notation: 15m, 1h, "1h 30min".
func SyncInterval(text string) (time.Duration, error) {
	d, err := time.ParseDuration(systemdMinutes.Replace(text))
	if err != nil || d < time.Minute || d > 24*time.Hour || d%time.Second != 0 || taskcatalog.Clean(text, 32) != text {
		return 0, Errorf(Invalid, "profile_invalid", "hardware_sync_interval %q is no time between 1m and 24h", said(text))
	}
	return d, nil
}

// PolicyOf returns the policy for a run at the site: the profile's policy, completed with the
// site's settings where the profile sets none.
func (s Site) PolicyOf(p Profile) Policy {
	q := p.Policy
	q.StageRetries = maps.Clone(q.StageRetries)
	for to, from := range map[*string]string{
		&q.DistroSeries: s.DistroSeries, &q.Architecture: s.Architecture, &q.PXEIface: s.PXEIface, &q.NodePXEIface: s.NodePXEIface,
	} {
		if *to == "" {
			*to = from
		}
	}
	vid := s.PXEVLANVID
	if q.PXEVLANVID != nil {
		vid = *q.PXEVLANVID
	}
	q.PXEVLANVID = &vid
	return q
}
