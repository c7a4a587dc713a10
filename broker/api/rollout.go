package api

import "time"

// RolloutStart asks for a release to be delivered to many nodes, wave after wave.
type RolloutStart struct {
	Release       string `json:"release" minLength:"1" maxLength:"64" doc:"a version"`
	Selector      string `json:"selector" minLength:"1" maxLength:"4000" doc:"all, NODE,NODE or key=value,key=value over labels and facts"`
	Canary        *int   `json:"canary,omitempty" minimum:"0" maximum:"1000" doc:"how many nodes go first; 1 where it is left out"`
	Waves         []int  `json:"waves,omitempty" maxItems:"20" doc:"shares of all nodes up to and with each wave, in percent, rising to 100; 10, 50 and 100 where they are left out"`
	WaveBy        string `json:"wave_by,omitempty" maxLength:"100" doc:"in place of shares: a wave for each value of this label or fact, of site or of region"`
	Concurrency   int    `json:"concurrency,omitempty" minimum:"0" maximum:"500" doc:"nodes that are worked on at a time; 10 where it is left out"`
	SoakSeconds   *int64 `json:"soak_seconds,omitempty" minimum:"0" maximum:"604800" doc:"for how long the nodes are watched behind each wave; 600 where it is left out"`
	MaxFailures   int    `json:"max_failures,omitempty" minimum:"0" maximum:"100000" doc:"so many nodes that fail stop it; 1 where it is left out"`
	OnFailure     string `json:"on_failure,omitempty" enum:"pause,rollback" doc:"default pause; rollback also takes the release back from the nodes that are well"`
	SafetyPolicy  string `json:"safety_policy,omitempty" enum:"idle,after_drain,forced" doc:"default idle: nodes that somebody is on are skipped; after_drain waits for them; forced is platform_admin's, with a reason"`
	AllowRollback bool   `json:"allow_rollback,omitzero" doc:"a version below the floor or below what nodes run; platform_admin, with a reason"`
	Force         bool   `json:"force,omitzero" doc:"a version that failed on a node before; platform_admin, with a reason"`
	Reason        string `json:"reason,omitempty" maxLength:"500"`
}

// RolloutOrder is an operator's action on a rollout.
type RolloutOrder struct {
	Reason      string `json:"reason,omitempty" maxLength:"500" doc:"required but for resume"`
	RetryFailed bool   `json:"retry_failed,omitzero" doc:"of resume: those that failed or were skipped are given another try, also by nodes that refused the version; platform_admin"`
}

// Rollout is a rollout in its present state.
type Rollout struct {
	RolloutID     string `json:"rollout_id"`
	Release       string `json:"release"`
	ReleaseDigest string `json:"release_digest"`
	Selector      string `json:"selector" doc:"who is a member was settled when it was asked for"`
	Site          string `json:"site,omitempty" doc:"of all members; left out where they are of several"`
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
	Counts   map[string]int   `json:"counts" doc:"of members by result: waiting, running, failing, taking_back, done, skipped, failed, rolled_back, taken_back"`
	Failures int              `json:"failures" doc:"those that count; an operator's resume acknowledges them"`
	Waves    []RolloutWave    `json:"waves"`
	LeftOut  []RolloutLeftOut `json:"left_out,omitempty" doc:"nodes that the selector means and the rollout does not"`

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
	Parked  int            `json:"parked,omitempty" doc:"of those under way: they wait for who is on the node"`
	State   string         `json:"state" enum:"waiting,rolling,soaking,rolled"`
}

// RolloutLeftOut counts nodes that are not members, with the reason.
type RolloutLeftOut struct {
	Code  string   `json:"code" doc:"node_status, never_enrolled, in_sync, pinned_elsewhere, channel, runs_newer, in_rollout"`
	Why   string   `json:"why"`
	Count int      `json:"count"`
	Nodes []string `json:"nodes" doc:"hostnames of the first of them"`
}

// RolloutMember is a node of a rollout.
type RolloutMember struct {
	NodeID      string `json:"node_id"`
	Hostname    string `json:"hostname"`
	Wave        string `json:"wave"`
	FromVersion string `json:"from_version,omitempty"`
	Result      string `json:"result"`
	Code        string `json:"code,omitempty" doc:"why it was skipped or failed"`
	Why         string `json:"why,omitempty"`
	NotBack     string `json:"not_taken_back,omitempty" doc:"why the release could not be taken back; code"`
	Counts      bool   `json:"counts,omitzero" doc:"its failure counts"`
	Parked      bool   `json:"parked,omitzero" doc:"its run waits for who is on the node"`
	RunID       string `json:"run_id,omitempty" doc:"on the node: hostler node agent-lifecycle show"`
	Stage       string `json:"stage,omitempty" doc:"of a run that is under way"`
	Waiting     string `json:"waiting,omitempty"`
	Seconds     int64  `json:"seconds,omitempty"`
}

// RolloutDetail is a rollout with its members and its history.
type RolloutDetail struct {
	Rollout
	Nodes  []RolloutMember `json:"nodes" doc:"left out with brief=true"`
	Events []RunEvent      `json:"events" doc:"the newest, at most 500, in order; left out with brief=true"`
}

// RolloutList is one page of rollouts, in the order of their start.
type RolloutList struct {
	Standing
	Items      []Rollout `json:"items"`
	NextCursor string    `json:"next_cursor,omitempty"`
}
