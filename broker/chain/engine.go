package chain

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Options of an engine; a zero value means the default given here.
type Options struct {
	Owner   string        // of the leases, unique among the brokers of a store; empty: random
	Workers int           // steps at a time: 8
	Lease   time.Duration // 60 s; renewed while a step runs
	MaxCall time.Duration // maximum duration of one call of a stage: 5 min
	Poll    time.Duration // between two looks at the store when nothing wakes the engine: 1 s
	Grace   time.Duration // for steps in flight when the engine is stopped: 20 s
	NewID   func(now time.Time) string
	Log     *zap.Logger
}

// margin is how long before its lease a step ends.
const margin = 10 * time.Second

// Engine executes the runs of a store. Any number of engines may share a store.
type Engine struct {
	store   Store
	classes Classes
	lines   map[string]*line // by kind: the list for new runs
	lists   map[string]*line // by list, with the lists of earlier releases
	kinds   []string
	known   []string // of lists
	Options
}

// New makes an engine for these chains. An error means that a chain cannot be run.
func New(store Store, classes Classes, o Options, chains ...Kind) (*Engine, error) {
	e := &Engine{store: store, classes: classes, lines: map[string]*line{}, lists: map[string]*line{}, Options: o}
	e.Owner = orDefault(o.Owner, strings.ToLower(rand.Text()))
	e.Workers, e.Lease, e.MaxCall = orDefault(o.Workers, 8), orDefault(o.Lease, time.Minute), orDefault(o.MaxCall, 5*time.Minute)
	e.Poll, e.Grace = orDefault(o.Poll, time.Second), orDefault(o.Grace, 20*time.Second)
	if e.NewID == nil {
		e.NewID = newID
	}
	if e.Log == nil {
		e.Log = zap.NewNop()
	}
	if e.Lease <= margin {
		return nil, fmt.Errorf("a lease of %v is not longer than the %v that a step ends before it", e.Lease, margin)
	}
	for _, c := range chains {
		l, err := c.compile()
		if err != nil {
			return nil, err
		}
		if e.lines[l.kind] != nil {
			return nil, fmt.Errorf("two chains have the name %s", l.kind)
		}
		e.lines[l.kind] = l
		e.kinds = append(e.kinds, l.kind)
		before, err := c.former()
		if err != nil {
			return nil, err
		}
		for _, l := range append(before, l) {
			for _, list := range l.lists {
				if e.lists[list] != nil {
					return nil, fmt.Errorf("chain %s has the same list twice", l.kind)
				}
				e.lists[list] = l
				e.known = append(e.known, list)
			}
		}
	}
	return e, nil
}

// lineOf is the list that a run follows; nil: this broker does not know the list. A run older
// than list names follows the list in force.
func (e *Engine) lineOf(r Record) *line {
	if r.List == "" {
		return e.lines[r.Kind]
	}
	return e.lists[r.List]
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// newID sorts by time, to the microsecond, among ids of earlier releases, which end their time with
// the millisecond.
func newID(now time.Time) string {
	return fmt.Sprintf("r-%011x%03x%s", now.UnixMilli(), now.UnixMicro()%1000, strings.ToLower(rand.Text()[:10]))
}

// Start is a request for a new run.
type Start struct {
	ID          string // empty: a new one
	Kind, Site  string // Site is required: holds and batches belong to a site
	Subject     string // for lists
	State       any    // of the chain's type
	Locks       []string
	Effects     []any // plain data that the store knows how to apply, in the transaction that starts the run
	RequestedBy string

	CorrelationID string
	Role, Reason  string // of the requester, for the audit log
}

// Start starts one run. *Locked names the runs that hold its locks. *EffectRefused says that an effect
// cannot be applied. Codes of *Refused:
// kind_unknown, site_missing, run_exists.
func (e *Engine) Start(ctx context.Context, s Start) (Record, error) {
	all, err := e.insert(ctx, []Start{s}, nil)
	if err != nil {
		return Record{}, err
	}
	return all[0], nil
}

// StartBatch starts runs together, or none of them. The batch needs an ID.
func (e *Engine) StartBatch(ctx context.Context, b Batch, starts []Start) ([]Record, error) {
	b.Parallel = max(b.Parallel, 1)
	return e.insert(ctx, starts, &b)
}

func (e *Engine) insert(ctx context.Context, starts []Start, b *Batch) ([]Record, error) {
	now := e.store.Now()
	var runs []NewRun
	for _, s := range starts {
		l := e.lines[s.Kind]
		switch {
		case l == nil:
			return nil, refused("kind_unknown", "cannot start a run of %s: this broker runs no such chain", s.Kind)
		case s.Site == "":
			return nil, refused("site_missing", "cannot start a run of %s: it needs a site", s.Kind)
		}
		state, err := l.encode(s.State)
		if err != nil {
			return nil, err
		}
		r := Record{
			ID: orDefault(s.ID, e.NewID(now)), Kind: s.Kind, List: l.list, Site: s.Site, Subject: s.Subject, CorrelationID: s.CorrelationID,
			State:       state,
			RequestedBy: s.RequestedBy, Status: Pending,
		}
		if b != nil {
			r.Batch = b.ID
		}
		m := newMove(l, e.classes, now, r)
		m.enter(l.main[0], Forward)
		h := fnv.New32a()
		_, _ = h.Write([]byte(r.ID))
		runs = append(runs, NewRun{
			Record: m.Record, Role: s.Role, Reason: s.Reason, Locks: s.Locks, Effects: s.Effects, Spread: int(h.Sum32() % 1000),
		})
	}
	if err := e.store.Insert(ctx, runs, b); err != nil {
		return nil, err
	}
	records := make([]Record, len(runs))
	for i, r := range runs {
		records[i] = r.Record
	}
	return records, nil
}

// ContinueBatch lets a stopped batch begin runs again. Its failed runs are retried separately,
// with Act.
func (e *Engine) ContinueBatch(ctx context.Context, o Order) error {
	return e.store.ContinueBatch(ctx, o)
}

// Run executes steps until ctx ends. Run then waits until the steps in flight have ended; after
// Grace they are cut off.
func (e *Engine) Run(ctx context.Context) {
	steps, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var workers sync.WaitGroup
	for range e.Workers {
		workers.Go(func() { e.work(ctx, steps) })
	}
	ended := make(chan struct{})
	go func() {
		workers.Wait()
		close(ended)
	}()
	<-ctx.Done()
	select {
	case <-ended:
	case <-time.After(e.Grace):
		cut()
		<-ended
	}
}

// work executes steps while runs are due, and waits otherwise.
func (e *Engine) work(ctx, steps context.Context) {
	wake := e.store.Wake(ctx)
	for ctx.Err() == nil {
		worked, err := e.Step(steps)
		if err != nil {
			e.Log.Warn("a step was lost", zap.Error(err))
		}
		if worked && (err == nil || errors.Is(err, ErrLost)) {
			continue
		}
		idle := e.Poll
		if next, err := e.store.NextDue(ctx); err == nil && !next.IsZero() {
			idle = min(idle, max(next.Sub(e.store.Now()), time.Millisecond))
		}
		select {
		case <-time.After(idle):
		case <-wake:
		case <-ctx.Done():
		}
	}
}
