package maas

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// LeastAge is how old a list may always be: no region is asked for its machines
// more than once in that time.
const LeastAge = time.Second

// A region works on the list of many machines for long, and on little else then. So who
// can do with an older one leaves it in peace for this many times as long as the last
// list took, and at most until that is mostSpared old.
const (
	spared     = 4
	mostSpared = 2 * time.Minute
)

// Snapshot is all machines of a region at one moment. It is shared: nobody
// changes it.
type Snapshot struct {
	At       time.Time // when the list was asked for
	Machines []Machine
	Unread   []string // ids of machines that are there and cannot be read; empty: not even that
}

// Find returns the machine of an id.
func (s Snapshot) Find(systemID string) (Machine, bool) {
	for _, m := range s.Machines {
		if m.SystemID == systemID {
			return m, true
		}
	}
	return Machine{}, false
}

// roster reads a list once for all who ask.
type roster[T any] struct {
	now    func() time.Time
	flight singleflight.Group

	mu   sync.Mutex
	last listed[T]
	took time.Duration // the last that came
	err  error         // of the last try
}

// listed is a list, and when it was asked for.
type listed[T any] struct {
	at   time.Time
	list T
}

// Machines lists the region's machines as they were at most maxAge ago (a second
// at least), or as they are read already for somebody else. A failure, too, is
// everybody's for a second.
func (r *Region) Machines(ctx context.Context, maxAge time.Duration) (Snapshot, error) {
	l, err := r.roster.read(ctx, "list machines", maxAge, r.list)
	return Snapshot{At: l.at, Machines: l.list.Machines, Unread: l.list.Unread}, err
}

// Lately is Machines for who reads once more, alone, whatever anything rests on: the
// list is as old as the region needs where it takes it long.
func (r *Region) Lately(ctx context.Context) (Snapshot, error) {
	return r.Machines(ctx, r.roster.rest())
}

// Addresses are those of the BMCs by system_id, read as Machines is.
func (r *Region) Addresses(ctx context.Context, maxAge time.Duration) (map[string]string, error) {
	l, err := r.bmcRoster.read(ctx, "list power parameters", maxAge, r.bmcs)
	return l.list, err
}

func (r *roster[T]) read(ctx context.Context, op string, maxAge time.Duration, list func(context.Context) (T, error)) (listed[T], error) {
	if l, err, ok := r.fresh(max(maxAge, LeastAge)); ok {
		return l, err
	}
	// Who asked first may go away: the list goes on for those behind.
	read := r.flight.DoChan("", func() (any, error) {
		if l, err, ok := r.fresh(LeastAge); ok {
			return l, err
		}
		at := r.now()
		all, err := list(context.WithoutCancel(ctx))
		if err != nil {
			at = r.now() // a failure, too, may have taken long
		}
		return r.keep(listed[T]{at, all}, r.now().Sub(at), err)
	})
	select {
	case got := <-read:
		l, _ := got.Val.(listed[T])
		return l, got.Err
	case <-ctx.Done():
		return listed[T]{}, &Error{Class: Timeout, Op: op, Detail: "no answer in time", err: ctx.Err()}
	}
}

func (r *roster[T]) fresh(maxAge time.Duration) (listed[T], error, bool) { //nolint:revive // the last says whether the others count
	r.mu.Lock()
	defer r.mu.Unlock()
	age := r.now().Sub(r.last.at)
	if r.err != nil {
		return listed[T]{}, r.err, age < LeastAge
	}
	return r.last, nil, !r.last.at.IsZero() && age < maxAge
}

func (r *roster[T]) keep(l listed[T], took time.Duration, err error) (listed[T], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.err = l, err
	if err == nil {
		r.took = took
	}
	return l, err
}

// rest is how old a list may be for the region to have its rest from them.
func (r *roster[T]) rest() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min((1+spared)*r.took, mostSpared)
}
