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
	Watching  Step = "watching"  // the new version is current, and takes no task
	Proving   Step = "proving"   // it was confirmed and works; good moves once it has run for a while
	Reverting Step = "reverting" // it was judged; the old version is put back
	Returning Step = "returning" // the old version is current and was started; it is not ready yet
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
	// WatchedSeconds is how long it was watched in this step, in all boots; while it is
	// proving, since it ended last.
	WatchedSeconds int    `json:"watched_seconds"`
	BootID         string `json:"boot_id"` // with left behind it: the watcher was asked to stop
	// Boots is how often the machine went down under it without being asked to, each
	// time soon after the last, and Starts how often it was started by systemd itself.
	Boots      int    `json:"boots"`
	Starts     int    `json:"starts"`
	Invocation string `json:"invocation,omitempty"`
	// Reason is why it is put back.
	Reason  taskcatalog.Code `json:"reason,omitempty"`
	Message string           `json:"message,omitempty"`

	// What follows is written only before the switch and when it is put back: meanwhile an
	// agent of before there was any of it may have to read this.

	// Over is the version that was being proved when this one took its turn, until the
	// switch is made: where that cannot be, the other goes on.
	Over *Trial `json:"over,omitempty"`

	// FailedAt is since when it did not do what it should.
	FailedAt time.Time `json:"failed_at,omitzero"`
	// Spared: the version before did not come up at once either, so that nothing says
	// that it was this one's fault.
	Spared bool `json:"spared,omitempty"`
}

// Observation is what the watcher sees of the new version.
type Observation struct {
	Watched time.Duration // since the switch, or in its proof
	Exits   int           // how often it ended by itself
	Boots   int           // see Trial
	Ready   bool          // it runs, and has said that it is ready
	Unready time.Duration // how long this start has been without that
	// Contact is that this start of it has spoken to the broker, and Steady for how long
	// it has run since.
	Contact bool
	Steady  time.Duration
	// Reaches is for how long the old version's code has reached the broker without a
	// fault between.
	Reaches time.Duration
	// Proof is how long a confirmed version is to run without ending.
	Proof time.Duration
}

// The bounds by which a trial is judged.
const (
	maxExits   = 2
	maxBoots   = 3
	readyLimit = 90 * time.Second
	settle     = 10 * time.Second
	// calm is how long the machine runs after which its next end is the first again.
	calm = 5 * time.Minute
	// An agent on trial that could not reach its broker, or was refused, pauses up to a
	// minute and a half before it tries again: see agent.trialPause.
	reachGrace = 150 * time.Second
)

// Verdict is what to do about a trial.
type Verdict string

// The verdicts.
const (
	GoOn    Verdict = "go on"
	Confirm Verdict = "confirm" // it works, as far as is known
	Keep    Verdict = "keep"    // it is the one that is known to work
	Revert  Verdict = "revert"
)

// Decide judges a trial by what is seen of it, and by nothing else. With Revert comes
// why.
func (t *Trial) Decide(o Observation) (Verdict, taskcatalog.Code, string) {
	window := time.Duration(t.WindowSeconds) * time.Second
	switch {
	case o.Exits >= maxExits && t.Step == Proving:
		return Revert, CodeCrashLoop, "it ended twice after it had been confirmed"
	case o.Exits >= maxExits:
		return Revert, CodeCrashLoop, "it ended twice"
	case o.Boots >= maxBoots:
		return Revert, CodeBootLoop, "the machine went down three times under it without being asked to, each time within " + calm.String() + " of the last"
	case !o.Ready && o.Unready >= readyLimit:
		return Revert, CodeNotReady, "it did not say that it is ready within " + readyLimit.String()
	case t.Step == Proving && o.Ready && o.Watched >= o.Proof:
		return Keep, "", ""
	case t.Step == Proving: // that it is silent now is no reason: it has been heard
		return GoOn, "", ""
	case o.Ready && o.Contact && o.Steady >= settle:
		return Confirm, "", ""
	case !o.Contact && t.Reached && o.Watched >= window && o.Reaches >= reachGrace:
		return Revert, CodeNoContact, "the broker has not answered it when it asked for tasks; it answered the version before it just before the switch, and does now"
	}
	return GoOn, "", ""
}
