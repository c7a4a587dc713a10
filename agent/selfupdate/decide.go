package selfupdate

import (
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// Step is how far a trial is.
type Step string

// The steps of a trial.
const (
	Armed     Step = "armed"     // the old version is current; the switch comes next
	Watching  Step = "watching"  // the new version is current
	Reverting Step = "reverting" // it was judged; the old version is put back
)

// Trial is a version being tried.
type Trial struct {
	ID          string `json:"id"` // of the task
	Step        Step   `json:"step"`
	From        string `json:"from"` // slots
	To          string `json:"to"`
	FromVersion string `json:"from_version"`
	ToVersion   string `json:"to_version"`
	// Window is how long the new version has to reach the broker, and Reached whether
	// the old one had just before.
	WindowSeconds int  `json:"window_seconds"`
	Reached       bool `json:"reached"`

	ArmedAt    time.Time `json:"armed_at"`
	SwitchedAt time.Time `json:"switched_at,omitzero"`
	// WatchedSeconds is how long it was watched, in all boots.
	WatchedSeconds int    `json:"watched_seconds"`
	BootID         string `json:"boot_id"`
	Boots          int    `json:"boots"`  // that the new version was current in
	Starts         int    `json:"starts"` // of the new version in this boot
	Invocation     string `json:"invocation,omitempty"`
	// Reason is why it is put back.
	Reason  taskcatalog.Code `json:"reason,omitempty"`
	Message string           `json:"message,omitempty"`
}

// Observation is what the watcher sees of the new version.
type Observation struct {
	Watched time.Duration // since the switch
	Exits   int           // how often it ended in this boot
	Boots   int           // how often the machine started with it as current, the first not counted
	Ready   bool          // it runs, and has said that it is ready
	Unready time.Duration // how long this start has been without that
	// Contact is that this start of it has spoken to the broker, and Steady for how long
	// it has run since.
	Contact bool
	Steady  time.Duration
	// Reaches is for how long the old version's code has reached the broker without a
	// fault between.
	Reaches time.Duration
}

// The bounds by which a trial is judged.
const (
	maxExits   = 2
	maxBoots   = 3
	readyLimit = 90 * time.Second
	settle     = 10 * time.Second
	// An agent that could not reach its broker pauses up to a minute and a half before it
	// tries again: see agent.pauseFor.
	reachGrace = 150 * time.Second
)

// Verdict is what to do about a trial.
type Verdict string

// The verdicts.
const (
	GoOn    Verdict = "go on"
	Confirm Verdict = "confirm"
	Revert  Verdict = "revert"
)

// Decide judges a trial by what is seen of it, and by nothing else. With Revert comes
// why.
func (t *Trial) Decide(o Observation) (Verdict, taskcatalog.Code, string) {
	window := time.Duration(t.WindowSeconds) * time.Second
	switch {
	case o.Exits >= maxExits:
		return Revert, CodeCrashLoop, "it ended twice"
	case o.Boots >= maxBoots:
		return Revert, CodeBootLoop, "the machine started again three times under it"
	case o.Ready && o.Contact && o.Steady >= settle:
		return Confirm, "", ""
	case !o.Ready && o.Unready >= readyLimit:
		return Revert, CodeNotReady, "it did not say that it is ready within " + readyLimit.String()
	case !o.Contact && t.Reached && o.Watched >= window && o.Reaches >= reachGrace:
		return Revert, CodeNoContact, "it did not reach the broker, which the version before it did just before, and does now"
	}
	return GoOn, "", ""
}
