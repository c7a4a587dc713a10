package chain

import (
	"context"
	"time"
)

// Chain is a list of stages over one state. S is stored as JSON: it holds
// references to secrets, never secrets, and the policies that its stages use,
// copied in when the run starts.
type Chain[S any] struct {
	Kind   string // node.onboarding: of the runs, and, up to a slash, the prefix of their messages
	Stages []Stage[S]

	// Former are the lists of releases before that differ from Stages in their names.
	// A run goes on by the list that it began with, so one stays here for as long as a
	// run of it may be under way: until two releases after it went.
	Former [][]Stage[S]

	// Form is that of the state. It is raised by whoever adds to S what a release before
	// cannot read, and no form is given up for as long as a run of it may be under way. A
	// run is of the newest form from the first save of a broker that knows it; one that
	// does not leaves it alone, as it does a list that it does not know.
	Form int

	// Probe asks the run's site whether it answers, and changes nothing. It goes
	// before the stage of a run that is to find out whether an unreachable site still
	// is: many stages ask their site nothing. Nil: only stages tell.
	Probe func(context.Context, *Run[S]) error

	// Failing is told of each failed attempt forward, in the moment before it is
	// recorded, and gives what is to be added to the failure's details, by name. It asks
	// others for what will be gone by the time a person looks, under Run.Key, and waits
	// for nothing: it has FailingTime, and whatever becomes of it, the failure is recorded
	// as it is. What it does to the run is not saved. Nil: nobody is told.
	Failing func(context.Context, *Run[S], Failure) map[string]any

	// Marking has a run that an operator marks stop by its stages, since it has begun
	// what is to be put away first: it notes in the state that the run shall stop, and
	// why, and the stage in hand is called until it fails. A run that is taking back is
	// not marked then (run_compensating). Nil: a mark stops a run where it is.
	Marking func(state *S, why string)
}

// FailingTime is what a chain's Failing has.
const FailingTime = 3 * time.Second

// Stage is one line of the list. Done, Do and Undo may be called again after a
// crash, at any point.
type Stage[S any] struct {
	Name string // stored; unique in the chain

	// Done looks whether the goal holds already; then Do is not called, and the
	// stage is recorded as skipped.
	Done func(context.Context, *Run[S]) (bool, error)
	Do   func(context.Context, *Run[S]) error
	// Undo takes back. It looks before it acts, and is called for stages that
	// never began, too. Nil: there is nothing to take back.
	Undo func(context.Context, *Run[S]) error

	Retry func(S) Retry // nil: one attempt
	Limit func(S) Limit // nil: no limit

	Pivot    bool // once it is passed, undo stops before it
	Optional bool // its failure is recorded, and the run goes on
	Waivable bool // an operator may have a run that stopped at it go on without it

	// Rescue is the detour from a failure of this stage. The last of it names in
	// Then the stage to go on with; rescue stages have no rescue of their own.
	Rescue []Stage[S]
	Then   string

	// About tells a person what the stage will do, before it does it.
	About func(S) About
}

// Retry is how often, and how fast, a stage is tried again.
type Retry struct {
	Attempts int           // in all, the first included; Unlimited: until the stage's limit
	First    time.Duration // before the second attempt; doubled for each one after it
	Max      time.Duration // 0: First doubles on
}

// Unlimited attempts need a Limit; without one they are one.
const Unlimited = -1

// Backoff is how long to wait after so many failed attempts.
func (r Retry) Backoff(failed int) time.Duration {
	const longest = 24 * time.Hour
	most := longest
	if r.Max > 0 && r.Max < longest {
		most = r.Max
	}
	d := r.First
	for range failed - 1 {
		if d >= most {
			break
		}
		d *= 2
	}
	return min(d, most)
}

// Limit is how long a stage may take in all its attempts, counted from when it
// was entered, and what it means when it has not succeeded by then. A stage is
// called once more at its limit, so that a late success counts.
type Limit struct {
	After time.Duration // 0: no limit
	Class Class         // empty: upstream_transient
	Code  string        // error code: failed_commission_timeout; empty: timed_out
	Next  string        // what the operator is told to do; empty: as the class says
}

// About is what a stage tells of itself in a plan.
type About struct {
	Touches     string        // what it changes, and where
	Destructive string        // what is lost for good; empty: nothing
	Expected    time.Duration // how long it usually takes
}

// Wait makes a Do that waits until look holds, looking every so often. seen is
// what it saw, for people.
func Wait[S any](every time.Duration, look func(context.Context, *Run[S]) (ok bool, seen string, err error)) func(context.Context, *Run[S]) error {
	return func(ctx context.Context, r *Run[S]) error {
		ok, seen, err := look(ctx, r)
		if err != nil || ok {
			return err
		}
		return Again(every, "%s", seen)
	}
}
