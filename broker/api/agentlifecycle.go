package api

import "time"

// AgentLifecycle is the desired state of a node's agent, the reported state, and the result of the
// last delivery.
type AgentLifecycle struct {
	NodeID   string `json:"node_id"`
	Hostname string `json:"hostname"`
	Site     string `json:"site,omitempty"`
	Status   string `json:"status" doc:"status of the node"`

	AgentChannel         string            `json:"agent_channel" enum:"stable,candidate,pinned"`
	DesiredAgentVersion  string            `json:"desired_agent_version,omitempty" doc:"the pinned version, or the newest release of the node's channel that is not revoked; left out if there is none"`
	VersionFloor         string            `json:"version_floor,omitempty" doc:"the lowest version that the node gets without an explicit rollback"`
	ReportedAgentVersion string            `json:"reported_agent_version,omitempty"`
	ReportedCommit       string            `json:"reported_commit,omitempty"`
	ReportedDigest       string            `json:"reported_digest,omitempty" doc:"hex SHA-256 of the running program"`
	ReportedAt           time.Time         `json:"reported_at,omitzero"`
	PreviousAgentVersion string            `json:"previous_agent_version,omitempty" doc:"version to which the node would roll back, as the node reported"`
	SkippedVersions      []AgentSkipped    `json:"skipped_versions,omitempty" doc:"versions that the node accepts only with force, as the node reported"`
	Capabilities         map[string]string `json:"capabilities,omitempty" doc:"shown for a single node, not in lists"`

	DesiredDeliveryMode       string    `json:"desired_delivery_mode" enum:"reimage,manual_install,rebootstrap"`
	DriftState                string    `json:"drift_state" doc:"in_sync, version_drift, config_drift, certificate_only_repair_needed or unknown; unknown counts as drift"`
	Badge                     string    `json:"badge" doc:"Current, Outdated, Config drift, Cert repair or Unknown build"`
	DriftReasons              []string  `json:"drift_reasons,omitempty"`
	LastDeliveryAttemptAt     time.Time `json:"last_delivery_attempt_at,omitzero"`
	LastDeliveryResult        string    `json:"last_delivery_result,omitempty" doc:"running, confirmed, rolled_back, refused, failed, cancelled, or a result that the node reported"`
	LastDeliveryReason        string    `json:"last_delivery_reason,omitempty" doc:"failure code"`
	LastDeliverySeconds       int64     `json:"last_delivery_seconds,omitzero"`
	LastDeliveryCorrelationID string    `json:"last_delivery_correlation_id,omitempty" doc:"id of the run, or of the task if no run requested the delivery"`

	LatestRun *AgentLifecycleRun `json:"latest_run,omitempty" doc:"shown for a single node, not in lists"`
}

// AgentSkipped is a version that failed on a node, or that a person on the node told the agent to
// skip.
type AgentSkipped struct {
	Version string `json:"version"`
	Reason  string `json:"reason" doc:"failure code"`
}

// AgentCounts counts the agents of a fleet by drift. Drift includes the agents of an unknown build;
// Unknown is their number.
type AgentCounts struct {
	Current int64 `json:"current"`
	Drift   int64 `json:"drift" doc:"agents that are not in sync, including those of an unknown build"`
	Unknown int64 `json:"unknown" doc:"agents of an unknown build"`
}

// AgentLifecycleList is one page of nodes that have enrolled.
type AgentLifecycleList struct {
	Standing
	Counts AgentCounts      `json:"counts" doc:"counts of all nodes of these sites, without the list's other filters"`
	Items  []AgentLifecycle `json:"items"`
	Next   string           `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// AgentWant changes the desired state of a node's agent. Omitted fields stay as they are.
type AgentWant struct {
	AgentChannel        string `json:"agent_channel,omitempty" enum:"stable,candidate,pinned"`
	PinnedVersion       string `json:"pinned_version,omitempty" maxLength:"64" doc:"required if agent_channel is pinned"`
	DesiredDeliveryMode string `json:"desired_delivery_mode,omitempty" enum:"reimage,manual_install,rebootstrap"`
	Reason              string `json:"reason,omitempty" maxLength:"500"`
}

// AgentLifecycleStart asks for a run on a node's agent.
type AgentLifecycleStart struct {
	Mode          string `json:"mode,omitempty" enum:"reimage,manual_install,rebootstrap" doc:"default: the node's desired_delivery_mode"`
	Scenario      string `json:"scenario" enum:"bootstrap_install,in_place_upgrade,repair_reinstall,certificate_repair,config_repair,drift_reconcile"`
	TargetVersion string `json:"target_version,omitempty" maxLength:"64" doc:"default: desired_agent_version"`
	SafetyPolicy  string `json:"safety_policy,omitempty" enum:"idle,after_drain,forced" doc:"idle (default): refused while a tenant is on the node; after_drain: waits until the tenant has left; forced: platform_admin only, with a reason"`
	AllowRollback bool   `json:"allow_rollback,omitzero" doc:"allow a version below the floor; platform_admin only, with a reason"`
	Force         bool   `json:"force,omitzero" doc:"allow a version that failed on this node before; platform_admin only, with a reason"`
	Reason        string `json:"reason,omitempty" maxLength:"500"`
}

// AgentLifecycleRun is a run on a node's agent.
type AgentLifecycleRun struct {
	RunID         string `json:"id"`
	NodeID        string `json:"node_id"`
	Hostname      string `json:"hostname"`
	Site          string `json:"site,omitempty"`
	Mode          string `json:"mode"`
	Scenario      string `json:"scenario"`
	List          string `json:"list" doc:"the list of stages: update, certificate, config, install or reimage"`
	TargetVersion string `json:"target_version,omitempty"`
	FromVersion   string `json:"from_version,omitempty" doc:"version that the node reported when the run began"`
	SafetyPolicy  string `json:"safety_policy"`
	AllowRollback bool   `json:"allow_rollback,omitzero"`
	Force         bool   `json:"force,omitzero"`
	Reason        string `json:"reason,omitempty"`
	RequestedBy   string `json:"requested_by"`

	RunState

	Install    *AgentInstall `json:"install,omitempty" doc:"the package that an operator installs by hand, and its checksums"`
	TurnoverID string        `json:"turnover_id,omitempty" doc:"the turnover that performs the reimage"`
	Tasks      []string      `json:"tasks,omitempty"`

	RunTimes
}

// AgentInstall names the package to install on a machine, with the digests that prove it.
type AgentInstall struct {
	Version       string `json:"version,omitempty"`
	PackageURL    string `json:"package_url,omitempty" doc:"URL at this broker; left out if no package of the version is published"`
	PackageSHA256 string `json:"package_sha256,omitempty"`
	ReleaseDigest string `json:"release_digest,omitempty" doc:"digest of the signed release"`
	ProgramSHA256 string `json:"program_sha256,omitempty" doc:"SHA-256 of the program that the node must report"`
}

// AgentLifecycleDetail is a run with its stages and its history.
type AgentLifecycleDetail struct {
	AgentLifecycleRun
	Stages []RunStage `json:"stages"`
	Events []RunEvent `json:"events" doc:"the newest 500 events, oldest first"`
}

// AgentLifecycleRuns is one page of runs, in the order of their start.
type AgentLifecycleRuns struct {
	Standing
	Items []AgentLifecycleRun `json:"items"`
	Next  string              `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}
