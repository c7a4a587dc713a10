package selfupdate

import (
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// Step is how far a trial is. doc.go draws the transitions.
type Step string

// The steps of a trial.
const (
	Armed     Step = "armed"     // the old version is current; the switch comes next
	Watching  Step = "watching"  // the new version is current, and takes no task
	Proving   Step = "proving"   // confirmed; good moves once the version has run for Proof
	Reverting Step = "reverting" // judged; the old version is being restored
	Returning Step = "returning" // the old version is current and was started; it is not ready yet
)

// Trial is a version being tried.
type Trial struct {
	ID          string `json:"id"` // the task's id
	Step        Step   `json:"step"`
	From        string `json:"from"` // From and To are slots
	To          string `json:"to"`
	FromVersion string `json:"from_version"`
	ToVersion   string `json:"to_version"`
	// WindowSeconds is how long the new version has to reach the broker. Reached is true if the old
	// version had contact just before the switch.
	WindowSeconds int  `json:"window_seconds"`
	Reached       bool `json:"reached"`

	ArmedAt    time.Time `json:"armed_at"`
	SwitchedAt time.Time `json:"switched_at,omitzero"`
	// WatchedSeconds is how long the version was watched in this step, over all boots. In the step
	// proving it counts from the version's last exit.
	WatchedSeconds int    `json:"watched_seconds"`
	BootID         string `json:"boot_id"` // with the suffix left: the watcher was asked to stop
	// Boots counts the unrequested ends of the machine under this version, each soon after the
	// last. Starts counts the version's starts in this boot, from the last start by hand or by the
	// boot on.
	Boots      int    `json:"boots"`
	Starts     int    `json:"starts"`
	Invocation string `json:"invocation,omitempty"`
	// Reason is why the version is reverted.
	Reason  taskcatalog.Code `json:"reason,omitempty"`
	Message string           `json:"message,omitempty"`

	// The fields below are written only before the switch and during a revert. In between, an agent
	// from before these fields may have to read the file.

	// Over is the interrupted proof of another version. Over is kept until the switch is made: if
	// the switch cannot be made, the proof goes on.
	Over *Trial `json:"over,omitempty"`

	// FailedAt is since when the version has not worked.
	FailedAt time.Time `json:"failed_at,omitzero"`
	// Spared: the previous version did not come up at once either, so the failure is not held
	// against this version.
	Spared bool `json:"spared,omitempty"`
}

// Observation is the watcher's view of the new version.
type Observation struct {
	Watched time.Duration // since the switch, or since the last exit in the proof
	Exits   int           // how often the program ended by itself
	Boots   int           // see Trial
	Ready   bool          // the unit is active: it runs and has signalled READY
	Unready time.Duration // how long this start has not been ready
	// Contact is true if this start has reached the broker. Steady is how long the start has run
	// since then.
	Contact bool
	Steady  time.Duration
	// Reaches is for how long the old version's code has reached the broker without a failure.
	Reaches time.Duration
	// Proof is how long a confirmed version must run without an exit.
	Proof time.Duration
}

// Limits used by Decide.
const (
	maxExits   = 2
	maxBoots   = 3
	readyLimit = 90 * time.Second
	settle     = 10 * time.Second
	// stableTime is how long the machine must run for its next end to count as the first again.
	stableTime = 5 * time.Minute
	// reachGrace exceeds the longest pause of an agent on trial that could not reach its broker or
	// was refused, a minute and a half: see agent.trialPause.
	reachGrace = 150 * time.Second
)

// Verdict is the decision on a trial.
type Verdict string

// The verdicts.
const (
	Continue Verdict = "go on"
	Confirm  Verdict = "confirm" // the version works, as far as is known
	Keep     Verdict = "keep"    // the version becomes the good one
	Revert   Verdict = "revert"
)

// Decide judges a trial by its record and the observation alone. A Revert comes with its code and
// message.
func (t *Trial) Decide(o Observation) (Verdict, taskcatalog.Code, string) {
	window := time.Duration(t.WindowSeconds) * time.Second
	switch {
	case o.Exits >= maxExits && t.Step == Proving:
		return Revert, CodeCrashLoop, "the version ended twice after it was confirmed"
	case o.Exits >= maxExits:
		return Revert, CodeCrashLoop, "the version ended twice"
	case o.Boots >= maxBoots:
		return Revert, CodeBootLoop, "the machine went down unasked three times while the version ran, each time within " +
			stableTime.String() + " of the last"
	case !o.Ready && o.Unready >= readyLimit:
		return Revert, CodeNotReady, "the version did not report that it is ready within " + readyLimit.String()
	case t.Step == Proving && o.Ready && o.Watched >= o.Proof:
		return Keep, "", ""
	case t.Step == Proving: // silence is no reason to revert: the version was heard before
		return Continue, "", ""
	case o.Ready && o.Contact && o.Steady >= settle:
		return Confirm, "", ""
	case !o.Contact && t.Reached && o.Watched >= window && o.Reaches >= reachGrace:
		return Revert, CodeNoContact,
			"the broker did not answer the version's polls for tasks; the broker answered the earlier version just before the switch, and does so now"
	}
	return Continue, "", ""
}
