package resource

import "time"

// Status is the system at a glance.
type Status struct {
	Version       string           `json:"version" doc:"of the broker"`
	Now           time.Time        `json:"now"`
	StartedAt     time.Time        `json:"started_at"`
	Store         string           `json:"store" doc:"sqlite or postgres"`
	Site          string           `json:"site,omitempty"`
	Nodes         map[string]int64 `json:"nodes" doc:"nodes that are not deleted, by status"`
	TurnoverOwed  int64            `json:"turnover_owed"`
	OpenTasks     map[string]int64 `json:"open_tasks" doc:"queued and dispatched tasks, by status"`
	TrustVersion  int64            `json:"trust_version"`
	Stragglers    int64            `json:"stragglers" doc:"nodes that have not confirmed the trust bundle in force"`
	AgentReleases int64            `json:"agent_releases"`
	Alerts        []Alert          `json:"alerts,omitempty"`
}

// Alert is something a person should look at.
type Alert struct {
	Code    string    `json:"code"`
	Message string    `json:"message"`
	Since   time.Time `json:"since,omitzero"`
}
