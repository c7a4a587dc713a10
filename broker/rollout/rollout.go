package rollout

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

// Kind is the kind of this package's runs.
const Kind = broker.RolloutKind

// OnFailure is the action beside stopping when too many nodes have failed.
type OnFailure string

// The choices.
const (
	Pause    OnFailure = "pause"    // done nodes keep the release
	Rollback OnFailure = "rollback" // done nodes get their previous version
)

// Result is the state of a member: see the package documentation.
type Result string

// The results.
const (
	Waiting    Result = "waiting"
	Running    Result = "running"
	Failing    Result = "failing"
	TakingBack Result = "taking_back"
	Done       Result = "done"
	Skipped    Result = "skipped"
	Failed     Result = "failed"
	RolledBack Result = "rolled_back"
	TakenBack  Result = "taken_back"
)

// Results lists all results, in the order of display.
var Results = []Result{Waiting, Running, Failing, TakingBack, Done, Skipped, Failed, RolledBack, TakenBack}

// Moving reports whether a run on the member's node is under way.
func (r Result) Moving() bool { return r == Running || r == Failing || r == TakingBack }

// Plan is the course of a rollout from wave to wave.
type Plan struct {
	Canary      int    `json:"canary"`
	Waves       []int  `json:"waves,omitempty"`   // shares of all members up to and with that wave, in percent
	WaveBy      string `json:"wave_by,omitempty"` // or: one wave for each value of a label or fact
	Concurrency int    `json:"concurrency"`
	SoakSeconds int64  `json:"soak_seconds"`
	MaxFailures int    `json:"max_failures"` // this number stops the rollout
}

func (p Plan) soak() time.Duration { return time.Duration(p.SoakSeconds) * time.Second }

// Wave is a group of members that is rolled together.
type Wave struct {
	Name string `json:"name"`
}

// Member is a node of a rollout. The JSON names are short because a rollout has thousands of
// members.
type Member struct {
	NodeID   string   `json:"id"`
	Hostname string   `json:"h"`
	Wave     int      `json:"w"`
	From     string   `json:"f,omitempty"` // the version before
	Result   Result   `json:"r"`
	Code     string   `json:"c,omitempty"` // why it was skipped or has failed
	Why      string   `json:"y,omitempty"` // the same, for people
	Back     string   `json:"b,omitempty"` // why it could not be taken back; code
	Seconds  int64    `json:"s,omitempty"` // duration of its run
	Try      int      `json:"t,omitempty"` // number of earlier tries
	Again    bool     `json:"a,omitempty"` // an operator gave it another try
	Parked   bool     `json:"p,omitempty"` // its run waits for a tenant of the node
	Soak     Soak     `json:"k,omitempty"` // of a done member
	Counts   Count    `json:"n,omitempty"`
	Unfit    []string `json:"u,omitempty"` // why it could not be handed out before; codes
}

// Count is whether a member's failure counts.
type Count int

// The counts.
const (
	NoFailure Count = iota
	Counted
	Acknowledged // an operator has continued the rollout since
)

// Soak is how far a done member has been watched.
type Soak int

// The soaks.
const (
	Unsoaked Soak = iota
	Soaking
	Soaked
)

// RunID is the run that gives a member the release; see BackID for the way back.
func (m *Member) RunID(rollout string) string {
	id := rollout + "-" + m.NodeID
	if m.Try > 0 {
		id += "-" + strconv.Itoa(m.Try)
	}
	return id
}

// BackID is the run that takes a member back.
func (m *Member) BackID(rollout string) string { return m.RunID(rollout) + "-back" }

// Current is the present or last run on a member's node; empty: none was begun.
func (m *Member) Current(rollout string) string {
	switch m.Result {
	case Waiting:
		return ""
	case Skipped:
		if m.Seconds == 0 {
			return ""
		}
	case TakingBack, TakenBack:
		return m.BackID(rollout)
	}
	return m.RunID(rollout)
}

// LeftOut are nodes that match the selector and are not members.
type LeftOut struct {
	Code  string   `json:"code"`
	Why   string   `json:"why"`
	Site  string   `json:"site,omitempty"` // their site
	Count int      `json:"count"`
	Nodes []string `json:"nodes"` // hostnames of the first of them
}

// Rollout is the state of a run.
type Rollout struct {
	Release       Release             `json:"release"`
	Selector      string              `json:"selector"`
	Plan          Plan                `json:"plan"`
	OnFailure     OnFailure           `json:"on_failure"`
	Safety        broker.SafetyPolicy `json:"safety_policy"`
	AllowRollback bool                `json:"allow_rollback,omitempty"`
	Force         bool                `json:"force,omitempty"`
	Reason        string              `json:"reason,omitempty"`
	RequestedBy   string              `json:"requested_by"`

	Waves   []Wave    `json:"waves"`
	Members []Member  `json:"-"`                 // rows of their own: see open
	Carried []Member  `json:"members,omitempty"` // until the first step has made those rows
	LeftOut []LeftOut `json:"left_out,omitempty"`

	Wave     int       `json:"wave"`               // the present wave
	Unsoaked bool      `json:"unsoaked,omitempty"` // a node is done and was not watched yet
	SoakFrom time.Time `json:"soak_from,omitzero"` // zero: no soak
	Halt     *Halt     `json:"halt,omitempty"`
	At       string    `json:"at,omitempty"` // stage and attempt of the last call; empty: the last call does not count

	LookedAt    time.Time `json:"looked_at,omitzero"`    // when the rollout was last at work
	HearsFrom   time.Time `json:"hears_from,omitzero"`   // since when the broker could have heard nodes
	InspectedAt time.Time `json:"inspected_at,omitzero"` // when done members were last inspected
	anyHeard    bool      // in this step: some agent is heard
}

// Parse reads the state of a run, as far as this version knows its fields, without members.
func Parse(raw json.RawMessage) (s Rollout) {
	_ = json.Unmarshal(raw, &s) // of another version: the common fields are still read
	return s
}

// Count is how many members of a wave have each result; wave -1: of all.
func (s *Rollout) Count(wave int) map[Result]int {
	out := map[Result]int{}
	for _, m := range s.Members {
		if wave < 0 || m.Wave == wave {
			out[m.Result]++
		}
	}
	return out
}

// Stopping reports whether a moving rollout begins nothing more, and will stop when the runs
// under way have ended. A rollout that an operator has continued since is not stopping.
func (s *Rollout) Stopping(r chain.Record) bool {
	return s.Halt != nil && r.Status.Moving() && r.Direction == chain.Forward && (s.At == "" || s.At == attemptKey(r.Stage, r.Attempt))
}

func attemptKey(stage string, attempt int) string { return stage + "/" + strconv.Itoa(attempt) }

func nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return strconv.Itoa(n) + " nodes"
}

// acknowledge clears the reason for the stop: an operator has continued the rollout.
func (s *Rollout) acknowledge() {
	s.Halt = nil
	for i := range s.Members {
		if m := &s.Members[i]; m.Counts == Counted {
			m.Counts = Acknowledged
		}
	}
}
