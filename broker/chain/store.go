package chain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Store keeps runs. It knows rows, not stages: what becomes of a row is worked
// out by this package and handed over as a Change, and stamped (Record.Stamped) when
// it is written. Two stores exist, SQL and
// memory, and chaintest holds both to one suite.
type Store interface {
	// Now is the clock by which runs are due and leases end.
	Now() time.Time

	// Insert adds runs, audited, with their locks and perhaps the batch they belong to:
	// all of them or, with *Locked or *Refused (run_exists, batch_exists), none. It
	// writes into them and into the batch when they were requested.
	Insert(ctx context.Context, runs []NewRun, batch *Batch) error

	// Claim leases the run that has been due for longest, of these kinds and lists (see
	// Claim), where
	// no hold, lease or batch says no; those that wait for a place in a batch come
	// last. Nil: there is none. It saves what Begin makes of the row.
	Claim(ctx context.Context, c Claim) (*Record, error)
	// Renew prolongs the lease of a claimed run. ErrLost: it is another's.
	Renew(ctx context.Context, r *Record, lease time.Duration) error
	// Save writes what a claimed run has become and gives its lease back. What was
	// asked meanwhile stays, and urges the run (Record.Urged).
	// ErrLost, *Locked and *EffectRefused change nothing.
	Save(ctx context.Context, c Change) error

	// Act writes what decide makes of a run, audited with the order. decide may
	// be called more than once. What it refuses is audited, too.
	Act(ctx context.Context, o Order, decide func(now time.Time, r Record) (Change, error)) (Record, error)
	// ContinueBatch lets a batch that stopped begin runs again, audited.
	ContinueBatch(ctx context.Context, o Order) error

	PlaceHold(ctx context.Context, actor Actor, h SiteHold) error // freezes stack; one that stands already stays as it is
	LiftHold(ctx context.Context, actor Actor, site string, kind HoldKind, reason string) error
	// Holds lists those of a site, and of all sites, that stand or ended after a
	// moment. Site * means those of every site.
	Holds(ctx context.Context, site string, endedAfter time.Time) ([]SiteHold, error)

	Run(ctx context.Context, id string) (Record, error)      // *Refused, run_not_found
	Batch(ctx context.Context, id string) (Batch, error)     // *Refused, batch_not_found
	Runs(ctx context.Context, f Filter) ([]Record, error)    // by id
	Events(ctx context.Context, run string) ([]Event, error) // as they were written

	// NextDue is the next moment after now at which a run may become due; zero:
	// none will by itself.
	NextDue(ctx context.Context) (time.Time, error)
	// Wake gives a word whenever a run may have become due, until ctx ends.
	Wake(ctx context.Context) <-chan struct{}
}

// NewRun is a run to insert.
type NewRun struct {
	Record
	Role, Reason string // of whoever asked, for the audit log
	Locks        []string
	Spread       int // 0 to 999
}

// Claim says who asks for a run.
type Claim struct {
	Owner string
	Lease time.Duration
	Kinds []string
	// Lists are those of stages that the engine knows; nil: of all. A run of another
	// one is left to who knows it, and claimed only after Strange, so that it does not
	// wait for nobody in silence.
	Lists []string
}

// Strange is how long a run that moves has been due and untouched before an engine
// that does not know its list claims it, which stops it for a person: brokers of two
// releases run side by side for less.
const Strange = 10 * time.Minute

// Change is what one transaction makes of a run. Record is the row as it shall
// be, with the version and owner it was read with.
type Change struct {
	Record   Record
	Events   []Event // without ID, RunID and At
	Messages []Message
	Effects  []any
	Locks    []string

	Nothing     bool   // the row stays as it is
	SameState   bool   // the state is as it was claimed, and need not be written
	Beside      bool   // a step is in flight: only what is asked is written
	Honoured    Ask    // this ask has been done
	Unreachable string // why the site cannot be reached; empty: nothing is said of it
	Reached     bool   // the site that was unreachable is not
	Result      *Result
}

// Filter selects runs; what is empty selects nothing away.
type Filter struct {
	Kind, Site, Batch, Stage string
	Class                    Class
	Statuses                 []Status
	After                    string // id of the last run of the page before
	Limit                    int    // 0: 100
}

// Actor is who asks for something.
type Actor struct{ Name, Role string }

// Order is an operator's action on a run or a batch.
type Order struct {
	ID     string
	Actor  Actor
	Action Action
	Reason string
	Seen   *Seen // nil: it is for the run however it stands
	// OnlyStopped refuses a run that moves (run_moving): somebody else had it go on.
	OnlyStopped bool
	// Says has a MarkManual of a run that is stopped already change what it says: goes
	// with OnlyStopped. Nil: a run that waits for a person stays as it is.
	Says *Says
	// Without is the stage that a Resume goes on without, which must be the one in
	// hand, and waivable; empty: none.
	Without string
}

// Says is what a marked run says: its failure's code, and what a person is told to do.
type Says struct{ Code, Next string }

// Seen is how a stopped run stood when an operator decided about it.
type Seen struct {
	Stage string
	Class Class // of its failure
}

// ErrLost says that the run was claimed or moved by somebody else meanwhile.
var ErrLost = errors.New("the run was claimed again meanwhile")

// Locked says which locks live runs have.
type Locked struct{ Taken []Taken }

// Taken is a lock and the run that has it.
type Taken struct{ Lock, Run string }

func (l *Locked) Error() string {
	words := make([]string, len(l.Taken))
	for i, t := range l.Taken {
		words[i] = fmt.Sprintf("%s is in the hands of run %s", t.Lock, t.Run)
	}
	return strings.Join(words, ", ") + " (wait for it, or cancel it)"
}

// EffectRefused says that an effect of a step cannot be applied.
type EffectRefused struct{ Err error }

func (e *EffectRefused) Error() string { return e.Err.Error() }

// Unwrap is why.
func (e *EffectRefused) Unwrap() error { return e.Err }

// Refused is an action that makes no sense now, or a thing that is not there.
type Refused struct{ Code, Message string }

func (r *Refused) Error() string { return r.Message }

func refused(code, format string, args ...any) *Refused {
	return &Refused{code, fmt.Sprintf(format, args...)}
}

// Exists is the refusal of an ID that is taken: the same was asked for before.
func Exists(noun, id string) *Refused {
	return refused(noun+"_exists", "there is a %s %s already", noun, id)
}

// NotFound is the refusal of a run or batch that is not there.
func NotFound(noun, id string) *Refused {
	return refused(noun+"_not_found", "there is no %s %s", noun, id)
}
