package chain

import (
	"context"
	"time"
)

// Chain is a list of stages over one state. S is stored as JSON. The state holds references to
// secrets, never secrets, and the policies that the stages use, copied in when the run starts.
type Chain[S any] struct {
	Kind   string // node.onboarding: kind of the runs and, up to a slash, prefix of their messages
	Stages []Stage[S]

	// Former holds the lists of earlier releases whose stage names differ from Stages. A run
	// continues with the list it began with. A former list therefore stays here while a run of
	// that list may be under way: for two releases after its replacement.
	Former [][]Stage[S]

	// Form is the version of the state. A change that adds to S what earlier releases cannot read
	// raises Form. A form stays supported while a run of that form may be under way.
	// The first save by a broker that knows a newer form moves the run to that form. A broker
	// without the form leaves the run alone, as with an unknown list.
	Form int

	// Probe asks the run's site whether it answers, and changes nothing. Probe runs before the
	// stage of the run that tests whether an unreachable site is back, because many stages make
	// no call to their site. Nil: only stages show whether the site answers.
	Probe func(context.Context, *Run[S]) error

	// Failing is called for each failed forward attempt, just before the failure is recorded. The
	// result is added to the failure's details, by name. Failing requests, under Run.Key, facts
	// that will be gone before a person looks, and does not wait for the answers. Failing has
	// FailingTime; whatever its result, the failure is recorded. Its changes to the run are not
	// saved. Nil: no call.
	Failing func(context.Context, *Run[S], Failure) map[string]any

	// Marking lets the stages of a marked run stop the run, for a run with unfinished work that
	// must be put away first. Marking notes the stop and the reason in the state; the current
	// stage is called until it fails. A run in undo refuses the mark (run_compensating). Nil: a
	// mark stops the run at once.
	Marking func(state *S, why string)
}

// FailingTime is the time limit of a chain's Failing.
const FailingTime = 3 * time.Second

// Stage is one entry of the list. Done, Do and Undo may be called again after a crash, at any
// point.
type Stage[S any] struct {
	Name string // stored; unique in the chain

	// Done reports whether the goal already holds. If so, Do is not called, and the stage is
	// recorded as skipped.
	Done func(context.Context, *Run[S]) (bool, error)
	Do   func(context.Context, *Run[S]) error
	// Undo takes the stage's work back. Undo looks before it acts, and is also called for stages
	// that never began. Nil: there is nothing to take back.
	Undo func(context.Context, *Run[S]) error

	Retry func(S) Retry // nil: one attempt
	Limit func(S) Limit // nil: no limit

	Pivot    bool // once passed, undo stops before it
	Optional bool // a failure is recorded, and the run goes on
	Waivable bool // an operator may let a run that stopped here continue without the stage

	// Rescue is the detour after a failure of this stage. Then, of the last rescue stage, names
	// the stage to go on with. Rescue stages have no rescue of their own.
	Rescue []Stage[S]
	Then   string

	// About describes the stage's work for a person, before the work begins.
	About func(S) About
}

// Limit bounds the total time of a stage over all attempts, counted from the entry into the
// stage, and classifies a stage that has not succeeded by then. A stage is called once more at
// its limit, so that a late success counts.
type Limit struct {
	After time.Duration // 0: no limit
	Class Class         // empty: upstream_transient
	Code  string        // error code: failed_commission_timeout; empty: timed_out
	Next  string        // advice to the operator; empty: as the class says
}

// About is a stage's description in a plan.
type About struct {
	Touches     string        // the changes, and where
	Destructive string        // permanent loss; empty: none
	Expected    time.Duration // usual duration
}
