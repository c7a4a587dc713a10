package api

import "time"

// Status is the system at a glance: first the things that need attention, then counts. Lists that
// would be too long are cut, and Omitted says by how many entries.
type Status struct {
	Holds       []Hold           `json:"holds,omitempty" doc:"frozen sites, then unreachable sites"`
	Alerts      []Alert          `json:"alerts,omitempty"`
	Runs        []StoppedRuns    `json:"runs,omitempty" doc:"runs that need an operator"`
	Quarantined []StatusNode     `json:"quarantined,omitempty"`
	Devices     []StatusDevices  `json:"devices,omitempty" doc:"nodes whose devices differ from the expected ones"`
	Drift       []StatusDrift    `json:"drift,omitempty" doc:"nodes whose state in MAAS differs, most severe first"`
	Behind      []NodesBehind    `json:"behind,omitempty" doc:"nodes that lack an assigned release or set of profiles"`
	Expiring    []Expiring       `json:"expiring,omitempty" doc:"what expires soon or has expired"`
	Omitted     map[string]int64 `json:"omitted,omitempty" doc:"number of omitted entries by list"`

	Version       string           `json:"version" doc:"version of the broker"`
	Now           time.Time        `json:"now"`
	StartedAt     time.Time        `json:"started_at"`
	Store         string           `json:"store" doc:"sqlite or postgres"`
	Site          string           `json:"site,omitempty"`
	Nodes         map[string]int64 `json:"nodes" doc:"number of nodes by status, without deleted ones"`
	TurnoverOwed  int64            `json:"turnover_owed"`
	Agents        AgentCounts      `json:"agents" doc:"number of these nodes by the state of their agent"`
	OpenTasks     map[string]int64 `json:"open_tasks" doc:"number of queued and dispatched tasks by status"`
	TrustVersion  int64            `json:"trust_version"`
	Stragglers    int64            `json:"stragglers" doc:"number of nodes that have not confirmed the trust bundle in force"`
	AgentReleases int64            `json:"agent_releases"`
	Terminals     StatusTerminals  `json:"terminals"`
}

// StatusTerminals counts terminal sessions and names the relay.
type StatusTerminals struct {
	Live             int64  `json:"live" doc:"sessions that are not closed"`
	Relay            string `json:"relay" doc:"HOST:PORT where nodes reach this broker's relay, over UDP and TCP"`
	RecordingsBroken int64  `json:"recordings_broken" doc:"recordings of sessions that closed in the last 30 days and are incomplete or were never closed"`
}

// Alert is something a person should look at.
type Alert struct {
	Code    string    `json:"code"`
	Message string    `json:"message"`
	Since   time.Time `json:"since,omitzero"`
}

// StoppedRuns are runs that stopped for one reason and need the same next action.
type StoppedRuns struct {
	Kind         string    `json:"kind"`
	FailureClass string    `json:"failure_class"`
	NextAction   string    `json:"recommended_next_action"`
	Runs         int64     `json:"runs"`
	Since        time.Time `json:"since" doc:"when the first of these runs stopped"`
	Examples     []string  `json:"examples" doc:"ids, longest wait first"`
}

// StatusNode is a node that a person should look at.
type StatusNode struct {
	NodeID    string    `json:"node_id"`
	Hostname  string    `json:"hostname"`
	Site      string    `json:"site,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	UpdatedAt time.Time `json:"updated_at"`
}

// StatusDrift is a node on which MAAS and the broker disagree.
type StatusDrift struct {
	NodeID     string    `json:"node_id"`
	Hostname   string    `json:"hostname"`
	Site       string    `json:"site"`
	Rule       string    `json:"rule"`
	Severity   string    `json:"severity"`
	MAASStatus string    `json:"maas_status"`
	NodeStatus string    `json:"node_status"`
	FirstSeen  time.Time `json:"first_seen"`
}

// NodesBehind are nodes that have one version and should have another.
type NodesBehind struct {
	What     string   `json:"what" enum:"agent,resolver profiles"`
	Has      string   `json:"has,omitempty"`
	Wants    string   `json:"wants"`
	Nodes    int64    `json:"nodes"`
	Examples []string `json:"examples" doc:"hostnames"`
}

// Expiring is something that expires soon.
type Expiring struct {
	What    string    `json:"what" doc:"node certificate, enrolment token, or an item of GET /expiry"`
	Name    string    `json:"name" doc:"a hostname, a token's name, or the id of a key or certificate"`
	Site    string    `json:"site,omitempty"`
	At      time.Time `json:"at"`
	Expired bool      `json:"expired"`
}
