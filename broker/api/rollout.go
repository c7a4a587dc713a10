package api

import "time"

// RolloutStart asks for a release to be delivered to many nodes, wave after wave.
type RolloutStart struct {
	Release       string `json:"release" minLength:"1" maxLength:"64" doc:"a version"`
	Selector      string `json:"selector" minLength:"1" maxLength:"4000" doc:"all, NODE,NODE or key=value,key=value over labels and facts"`
	Canary        *int   `json:"canary,omitempty" minimum:"0" maximum:"1000" doc:"number of nodes in the first wave; default 1"`
	Waves         []int  `json:"waves,omitempty" maxItems:"20" doc:"cumulative share of nodes after each wave, in percent, rising to 100; default 10, 50, 100"`
	WaveBy        string `json:"wave_by,omitempty" maxLength:"100" doc:"instead of shares: one wave for each value of this label or fact, of site or of region"`
	Concurrency   int    `json:"concurrency,omitempty" minimum:"0" maximum:"500" doc:"number of nodes that are updated at a time; default 10"`
	SoakSeconds   *int64 `json:"soak_seconds,omitempty" minimum:"0" maximum:"604800" doc:"how long nodes are observed after each wave; default 600"`
	MaxFailures   int    `json:"max_failures,omitempty" minimum:"0" maximum:"100000" doc:"number of failed nodes that stops the rollout; default 1"`
	OnFailure     string `json:"on_failure,omitempty" enum:"pause,rollback" doc:"pause (default); rollback also rolls back the nodes that were updated successfully"`
	SafetyPolicy  string `json:"safety_policy,omitempty" enum:"idle,after_drain,forced" doc:"idle (default): nodes with a tenant are skipped; after_drain: waits until the tenant has left; forced: platform_admin only, with a reason"`
	AllowRollback bool   `json:"allow_rollback,omitzero" doc:"allow a version below the floor or below the version that nodes run; platform_admin only, with a reason"`
	Force         bool   `json:"force,omitzero" doc:"allow a version that failed on a node before; platform_admin only, with a reason"`
	Reason        string `json:"reason,omitempty" maxLength:"500"`
}

// RolloutOrder is an operator's action on a rollout.
type RolloutOrder struct {
	Reason      string `json:"reason,omitempty" maxLength:"500" doc:"required except for resume"`
	RetryFailed bool   `json:"retry_failed,omitzero" doc:"for resume: retry nodes that failed or were skipped, including nodes that refused the version; platform_admin only"`
}

// Rollout is a rollout in its present state.
type Rollout struct {
	RolloutID     string `json:"id"`
	Release       string `json:"release"`
	ReleaseDigest string `json:"release_digest"`
	Selector      string `json:"selector" doc:"the members were determined when the rollout was created"`
	Site          string `json:"site,omitempty" doc:"site of all members; left out if members are of several sites"`
	Canary        int    `json:"canary"`
	WaveBy        string `json:"wave_by,omitempty"`
	Concurrency   int    `json:"concurrency"`
	SoakSeconds   int64  `json:"soak_seconds"`
	MaxFailures   int    `json:"max_failures"`
	OnFailure     string `json:"on_failure"`
	SafetyPolicy  string `json:"safety_policy"`
	AllowRollback bool   `json:"allow_rollback,omitzero"`
	Force         bool   `json:"force,omitzero"`
	Reason        string `json:"reason,omitempty"`
	RequestedBy   string `json:"requested_by"`

	Status       string `json:"status"`
	Ended        bool   `json:"ended"`
	CurrentStage string `json:"current_stage"`
	Waiting      string `json:"waiting,omitempty"`
	Asked        string `json:"asked,omitempty"`

	FailureClass          string `json:"failure_class,omitempty"`
	ErrorCode             string `json:"error_code,omitempty"`
	ErrorMessage          string `json:"error_message,omitempty"`
	RecommendedNextAction string `json:"recommended_next_action,omitempty"`

	Members  int              `json:"members"`
	Counts   map[string]int   `json:"counts" doc:"number of members by result: waiting, running, failing, taking_back, done, skipped, failed, rolled_back, taken_back"`
	Failures int              `json:"failures" doc:"failures that count towards max_failures; a resume by an operator acknowledges them"`
	Waves    []RolloutWave    `json:"waves"`
	LeftOut  []RolloutLeftOut `json:"left_out,omitempty" doc:"nodes that the selector matches and the rollout leaves out"`

	RequestedAt time.Time `json:"requested_at"`
	StartedAt   time.Time `json:"started_at,omitzero"`
	SoaksSince  time.Time `json:"soaks_since,omitzero"`
	CompletedAt time.Time `json:"completed_at,omitzero"`
	UpdatedAt   time.Time `json:"updated_at"`
}

// RolloutWave is a part of a rollout.
type RolloutWave struct {
	Name    string         `json:"name"`
	Members int            `json:"members"`
	Counts  map[string]int `json:"counts"`
	Parked  int            `json:"parked,omitempty" doc:"running members that wait until the tenant has left the node"`
	State   string         `json:"state" enum:"waiting,rolling,soaking,rolled"`
}

// RolloutLeftOut counts nodes that are not members, with the reason.
type RolloutLeftOut struct {
	Code  string   `json:"code" doc:"node_status, never_enrolled, in_sync, pinned_elsewhere, channel, runs_newer, in_rollout"`
	Why   string   `json:"why"`
	Count int      `json:"count"`
	Nodes []string `json:"nodes" doc:"hostnames of the first nodes"`
}

// RolloutMember is a node of a rollout.
type RolloutMember struct {
	NodeID      string `json:"node_id"`
	Hostname    string `json:"hostname"`
	Wave        string `json:"wave"`
	FromVersion string `json:"from_version,omitempty"`
	Result      string `json:"result"`
	Code        string `json:"code,omitempty" doc:"why the node was skipped or failed"`
	Why         string `json:"why,omitempty"`
	NotBack     string `json:"not_taken_back,omitempty" doc:"code that says why the release could not be rolled back"`
	Counts      bool   `json:"counts,omitzero" doc:"the failure counts towards max_failures"`
	Parked      bool   `json:"parked,omitzero" doc:"the run waits until the tenant has left the node"`
	RunID       string `json:"run_id,omitempty" doc:"run on the node's agent; see hostler node agent-lifecycle show"`
	Stage       string `json:"stage,omitempty" doc:"stage of a run under way"`
	Waiting     string `json:"waiting,omitempty"`
	Seconds     int64  `json:"seconds,omitempty"`
}

// RolloutDetail is a rollout with its members and its history.
type RolloutDetail struct {
	Rollout
	Nodes  []RolloutMember `json:"nodes" doc:"left out with brief=true"`
	Events []RunEvent      `json:"events" doc:"the newest 500 events, oldest first; left out with brief=true"`
}

// RolloutList is one page of rollouts, in the order of their start.
type RolloutList struct {
	Standing
	Items []Rollout `json:"items"`
	Next  string    `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}
