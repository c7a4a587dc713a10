package api

import "time"

// AgentLifecycle is the desired state of a node's agent, the reported state, and the result of the
// last delivery.
type AgentLifecycle struct {
	NodeID   string `json:"node_id"`
	Hostname string `json:"hostname"`
	Site     string `json:"site,omitempty"`
	Status   string `json:"status" doc:"of the node"`

	AgentChannel         string            `json:"agent_channel" enum:"stable,candidate,pinned"`
	DesiredAgentVersion  string            `json:"desired_agent_version,omitempty" doc:"newest release of its channel that is not revoked, or the pinned one; left out where there is none"`
	VersionFloor         string            `json:"version_floor,omitempty" doc:"no node is given less without a rollback that is asked for"`
	ReportedAgentVersion string            `json:"reported_agent_version,omitempty"`
	ReportedCommit       string            `json:"reported_commit,omitempty"`
	ReportedDigest       string            `json:"reported_digest,omitempty" doc:"hex SHA-256 of the program that runs"`
	ReportedAt           time.Time         `json:"reported_at,omitzero"`
	PreviousAgentVersion string            `json:"previous_agent_version,omitempty" doc:"what a rollback of the node goes back to, as it says"`
	SkippedVersions      []AgentSkipped    `json:"skipped_versions,omitempty" doc:"that the node takes by force only, as it says"`
	Capabilities         map[string]string `json:"capabilities,omitempty" doc:"of a node that is shown alone"`

	DesiredDeliveryMode       string    `json:"desired_delivery_mode" enum:"reimage,manual_install,rebootstrap"`
	DriftState                string    `json:"drift_state" doc:"in_sync, version_drift, config_drift, certificate_only_repair_needed or unknown, which is drift as well"`
	Badge                     string    `json:"badge" doc:"Current, Outdated, Config drift, Cert repair or Unknown build"`
	DriftReasons              []string  `json:"drift_reasons,omitempty"`
	LastDeliveryAttemptAt     time.Time `json:"last_delivery_attempt_at,omitzero"`
	LastDeliveryResult        string    `json:"last_delivery_result,omitempty" doc:"running, confirmed, rolled_back, refused, failed, cancelled, or what the node says"`
	LastDeliveryReason        string    `json:"last_delivery_reason,omitempty" doc:"a code"`
	LastDeliverySeconds       int64     `json:"last_delivery_seconds,omitzero"`
	LastDeliveryCorrelationID string    `json:"last_delivery_correlation_id,omitempty" doc:"the run, or the task where no run asked for it"`

	LatestRun *AgentLifecycleRun `json:"latest_run,omitempty" doc:"of a node that is shown alone"`
}

// AgentSkipped is a version that failed on a node, or that a person on the node told the agent to
// skip.
type AgentSkipped struct {
	Version string `json:"version"`
	Reason  string `json:"reason" doc:"a code"`
}

// AgentCounts counts the agents of a fleet by drift. Drift includes the agents of an unknown build;
// Unknown is their number.
type AgentCounts struct {
	Current int64 `json:"current"`
	Drift   int64 `json:"drift" doc:"all others, of an unknown build as well"`
	Unknown int64 `json:"unknown" doc:"of these, those of which nobody knows the build"`
}

// AgentLifecycleList is one page of nodes that have enrolled.
type AgentLifecycleList struct {
	Standing
	Counts     AgentCounts      `json:"counts" doc:"of all nodes of these sites, whatever the list was narrowed to"`
	Items      []AgentLifecycle `json:"items"`
	NextCursor string           `json:"next_cursor,omitempty"`
}

// AgentWant changes the desired state of a node's agent. Omitted fields stay as they are.
type AgentWant struct {
	AgentChannel        string `json:"agent_channel,omitempty" enum:"stable,candidate,pinned"`
	PinnedVersion       string `json:"pinned_version,omitempty" maxLength:"64" doc:"with agent_channel pinned"`
	DesiredDeliveryMode string `json:"desired_delivery_mode,omitempty" enum:"reimage,manual_install,rebootstrap"`
	Reason              string `json:"reason,omitempty" maxLength:"500"`
}

// AgentLifecycleStart asks for a run on a node's agent.
type AgentLifecycleStart struct {
	Mode          string `json:"mode,omitempty" enum:"reimage,manual_install,rebootstrap" doc:"the node's desired_delivery_mode where it is left out"`
	Scenario      string `json:"scenario" enum:"bootstrap_install,in_place_upgrade,repair_reinstall,certificate_repair,config_repair,drift_reconcile"`
	TargetVersion string `json:"target_version,omitempty" maxLength:"64" doc:"desired_agent_version where it is left out"`
	SafetyPolicy  string `json:"safety_policy,omitempty" enum:"idle,after_drain,forced" doc:"default idle: refused while somebody is on the node; after_drain waits for them; forced is platform_admin's, with a reason"`
	AllowRollback bool   `json:"allow_rollback,omitzero" doc:"a version below the floor; platform_admin, with a reason"`
	Force         bool   `json:"force,omitzero" doc:"a version that failed on this node before; platform_admin, with a reason"`
	Reason        string `json:"reason,omitempty" maxLength:"500"`
}

// AgentLifecycleRun is a run on a node's agent.
type AgentLifecycleRun struct {
	RunID         string `json:"run_id"`
	NodeID        string `json:"node_id"`
	Hostname      string `json:"hostname"`
	Site          string `json:"site,omitempty"`
	Mode          string `json:"mode"`
	Scenario      string `json:"scenario"`
	List          string `json:"list" doc:"which stages it goes through: update, certificate, config, install or reimage"`
	TargetVersion string `json:"target_version,omitempty"`
	FromVersion   string `json:"from_version,omitempty" doc:"what the node reported when the run began"`
	SafetyPolicy  string `json:"safety_policy"`
	AllowRollback bool   `json:"allow_rollback,omitzero"`
	Force         bool   `json:"force,omitzero"`
	Reason        string `json:"reason,omitempty"`
	RequestedBy   string `json:"requested_by"`

	RunState

	Install    *AgentInstall `json:"install,omitempty" doc:"what a person installs, and what to check it with"`
	TurnoverID string        `json:"turnover_id,omitempty" doc:"of a reimage: the run that does it"`
	Tasks      []string      `json:"tasks,omitempty"`

	RunTimes
}

// AgentInstall names the package to install on a machine, with the digests that prove it.
type AgentInstall struct {
	Version       string `json:"version,omitempty"`
	PackageURL    string `json:"package_url,omitempty" doc:"at this broker; left out where no package of the version is published"`
	PackageSHA256 string `json:"package_sha256,omitempty"`
	ReleaseDigest string `json:"release_digest,omitempty" doc:"of the signed release"`
	ProgramSHA256 string `json:"program_sha256,omitempty" doc:"what the node must report"`
}

// AgentLifecycleDetail is a run with its stages and its history.
type AgentLifecycleDetail struct {
	AgentLifecycleRun
	Stages []RunStage `json:"stages"`
	Events []RunEvent `json:"events" doc:"the newest, at most 500, in order"`
}

// AgentLifecycleRuns is one page of runs, in the order of their start.
type AgentLifecycleRuns struct {
	Standing
	Items      []AgentLifecycleRun `json:"items"`
	NextCursor string              `json:"next_cursor,omitempty"`
}
