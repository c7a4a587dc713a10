package chain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Store keeps runs. It knows rows, not stages: this package computes each row and passes a
// Change, which the store stamps (Record.Stamped) when writing. Two stores exist, SQL and memory;
// the suite of chaintest covers both.
type Store interface {
	// Now is the clock for due times and leases.
	Now() time.Time

	// Insert adds runs, audited, with their locks and an optional batch: all of them or, with
	// *Locked or *Refused (run_exists, batch_exists), none. Insert sets the time of the request
	// in the runs and the batch.
	Insert(ctx context.Context, runs []NewRun, batch *Batch) error

	// Claim leases a run of these kinds and lists (see Claim): of the runs that no hold, lease or
	// batch keeps back, the run that has been due for longest. Pending runs of batches come last.
	// Nil: no run. The row is saved as Begin returns it.
	Claim(ctx context.Context, c Claim) (*Record, error)
	// Renew prolongs the lease of a claimed run. ErrLost: another claim holds the lease.
	Renew(ctx context.Context, r *Record, lease time.Duration) error
	// Save writes the new row of a claimed run and releases the lease. A request from meanwhile
	// stays, and urges the run (Record.Urged). ErrLost, *Locked and *EffectRefused change
	// nothing.
	Save(ctx context.Context, c Change) error

	// Act writes decide's result, audited with the order. decide may be called more than once. A
	// refusal is audited, too.
	Act(ctx context.Context, o Order, decide func(now time.Time, r Record) (Change, error)) (Record, error)
	// ContinueBatch lets a stopped batch begin runs again, audited.
	ContinueBatch(ctx context.Context, o Order) error

	PlaceHold(ctx context.Context, actor Actor, h SiteHold) error // freezes stack; an existing hold stays unchanged
	LiftHold(ctx context.Context, actor Actor, site string, kind HoldKind, reason string) error
	// Holds lists the holds of a site, and of all sites, that are in force or ended after a
	// moment. Site * means the holds of every site.
	Holds(ctx context.Context, site string, endedAfter time.Time) ([]SiteHold, error)

	Run(ctx context.Context, id string) (Record, error)      // *Refused, run_not_found
	Batch(ctx context.Context, id string) (Batch, error)     // *Refused, batch_not_found
	Runs(ctx context.Context, f Filter) ([]Record, error)    // by id
	Events(ctx context.Context, run string) ([]Event, error) // in the order of writing

	// NextDue is the next moment after now at which a run may become due; zero: none without an
	// action.
	NextDue(ctx context.Context) (time.Time, error)
	// Wake signals whenever a run may have become due, until ctx ends.
	Wake(ctx context.Context) <-chan struct{}
}

// NewRun is a run to insert.
type NewRun struct {
	Record
	Role, Reason string // of the requester, for the audit log
	Locks        []string
	Effects      []any // a refused effect refuses all runs
	Spread       int   // 0 to 999
}

// Claim says who claims a run, for how long, and which runs the claimer knows.
type Claim struct {
	Owner string
	Lease time.Duration
	Kinds []string
	// Lists are the lists of stages that the engine knows; nil: all. A run of an unknown list is
	// left to brokers that know the list. After Strange any engine may claim such a run, so that
	// the run does not wait unnoticed.
	Lists []string
}

// Strange is how long a moving run must be due and untouched before an engine without its list
// claims the run and stops it for a person. Brokers of two releases run side by side for a
// shorter time.
const Strange = 10 * time.Minute

// Change is the result of one transaction on a run. Record is the new row, with the version and
// owner of the row that was read.
type Change struct {
	Record   Record
	Events   []Event // without ID, RunID and At
	Messages []Message
	Effects  []any
	Locks    []string

	Nothing     bool   // the row stays unchanged
	SameState   bool   // the state is unchanged since the claim and need not be written
	Beside      bool   // a step is in flight: only the request is written
	Honoured    Ask    // this request has been carried out
	Unreachable string // why the site cannot be reached; empty: no statement
	Reached     bool   // the unreachable site answers again
	Result      *Result
}

// Filter selects runs; an empty field matches all. Kind also matches the kinds that continue it
// after a slash, such as node.decommission/reimage for node.decommission.
type Filter struct {
	Kind, Site, Batch, Stage string
	Class                    Class
	Statuses                 []Status
	After                    string // id of the last run of the previous page
	Limit                    int    // 0: 100
}

// Actor is a requester.
type Actor struct{ Name, Role string }

// Order is an operator's action on a run or a batch.
type Order struct {
	ID     string
	Actor  Actor
	Action Action
	Reason string
	Seen   *Seen // nil: the order holds for any state of the run
	// OnlyStopped refuses a moving run (run_moving): somebody else has set the run in motion.
	OnlyStopped bool
	// Says lets MarkManual replace the code and the advice of an already stopped run; used with
	// OnlyStopped. Nil: a run that waits for a person stays unchanged.
	Says *Says
	// Without is the stage that a Resume leaves out: the current stage, and waivable; empty:
	// none.
	Without string
}

// Says is the content of a marked run: the failure's code, and the advice to a person.
type Says struct{ Code, Next string }

// Seen is the state of a stopped run at the time of an operator's decision.
type Seen struct {
	Stage string
	Class Class // of the failure
}

// ErrLost says that another broker or an operator has claimed or moved the run meanwhile.
var ErrLost = errors.New("the run was claimed again meanwhile")

// Locked lists locks that live runs hold.
type Locked struct{ Taken []Taken }

// Taken is a lock and the run that holds the lock.
type Taken struct{ Lock, Run string }

func (l *Locked) Error() string {
	words := make([]string, len(l.Taken))
	for i, t := range l.Taken {
		words[i] = fmt.Sprintf("%s is held by run %s", t.Lock, t.Run)
	}
	return strings.Join(words, ", ") + " (wait for this run, or cancel it)"
}

// EffectRefused says that an effect of a step cannot be applied.
type EffectRefused struct{ Err error }

func (e *EffectRefused) Error() string { return e.Err.Error() }

// Unwrap is the reason.
func (e *EffectRefused) Unwrap() error { return e.Err }

// Refused is an action that the present state does not allow, or a missing object.
type Refused struct{ Code, Message string }

func (r *Refused) Error() string { return r.Message }

func refused(code, format string, args ...any) *Refused {
	return &Refused{code, fmt.Sprintf(format, args...)}
}

// Exists is the refusal of an ID that is already used.
func Exists(noun, id string) *Refused {
	return refused(noun+"_exists", "a %s %s exists already", noun, id)
}

// NotFound is the refusal of a missing run or batch.
func NotFound(noun, id string) *Refused {
	return refused(noun+"_not_found", "there is no %s %s", noun, id)
}
