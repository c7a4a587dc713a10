package maas

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// MinAge is an age that a list may always have: a region is asked for its machines at most once
// in this time.
const MinAge = time.Second

// A region of many machines takes long for a list, and does little else meanwhile. A caller that
// accepts an older list spares the region for spared times the duration of the last list, until the
// list is maxSpared old at most.
const (
	spared    = 4
	maxSpared = 2 * time.Minute
)

// Snapshot is all machines of a region at one moment. It is shared: nobody changes it.
type Snapshot struct {
	At       time.Time // when the list was requested
	Machines []Machine
	Unread   []string // ids of machines that exist and cannot be read; empty: not even the id
}

// Find returns the machine with an id.
func (s Snapshot) Find(systemID string) (Machine, bool) {
	for _, m := range s.Machines {
		if m.SystemID == systemID {
			return m, true
		}
	}
	return Machine{}, false
}

// roster reads a list once for all concurrent callers.
type roster[T any] struct {
	now    func() time.Time
	flight singleflight.Group

	mu   sync.Mutex
	last timedList[T]
	took time.Duration // duration of the last successful list
	err  error         // of the last try
}

// timedList is a list, and when it was requested.
type timedList[T any] struct {
	at   time.Time
	list T
}

// Machines lists the region's machines as they were at most maxAge ago (at least a second), or
// shares a list that is being read already. A failure, too, is shared for a second.
func (r *Region) Machines(ctx context.Context, maxAge time.Duration) (Snapshot, error) {
	l, err := r.roster.read(ctx, "list machines", maxAge, r.list)
	return Snapshot{At: l.at, Machines: l.list.Machines, Unread: l.list.Unread}, err
}

// RecentMachines is Machines for a caller that reads every decisive machine again, alone. The list
// may be older where a list takes the region long.
func (r *Region) RecentMachines(ctx context.Context) (Snapshot, error) {
	return r.Machines(ctx, r.roster.rest())
}

// Addresses returns the addresses of the BMCs by system_id, with the ages of Machines.
func (r *Region) Addresses(ctx context.Context, maxAge time.Duration) (map[string]string, error) {
	l, err := r.bmcRoster.read(ctx, "list power parameters", maxAge, r.bmcs)
	return l.list, err
}

func (r *roster[T]) read(
	ctx context.Context, op string, maxAge time.Duration, list func(context.Context) (T, error),
) (timedList[T], error) {
	if l, err, ok := r.fresh(max(maxAge, MinAge)); ok {
		return l, err
	}
	// The first caller may go away: the list goes on for the others.
	read := r.flight.DoChan("", func() (any, error) {
		if l, err, ok := r.fresh(MinAge); ok {
			return l, err
		}
		at := r.now()
		all, err := list(context.WithoutCancel(ctx))
		if err != nil {
			at = r.now() // a failure, too, may have taken long
		}
		return r.keep(timedList[T]{at, all}, r.now().Sub(at), err)
	})
	select {
	case got := <-read:
		l, _ := got.Val.(timedList[T])
		return l, got.Err
	case <-ctx.Done():
		return timedList[T]{}, &Error{Class: Timeout, Op: op, Detail: "no answer in time", err: ctx.Err()}
	}
}

func (r *roster[T]) fresh(maxAge time.Duration) (timedList[T], error, bool) { //nolint:revive // the last says whether the others count
	r.mu.Lock()
	defer r.mu.Unlock()
	age := r.now().Sub(r.last.at)
	if r.err != nil {
		return timedList[T]{}, r.err, age < MinAge
	}
	return r.last, nil, !r.last.at.IsZero() && age < maxAge
}

func (r *roster[T]) keep(l timedList[T], took time.Duration, err error) (timedList[T], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.err = l, err
	if err == nil {
		r.took = took
	}
	return l, err
}

// rest is how old a list may be so that the region is spared.
func (r *roster[T]) rest() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min((1+spared)*r.took, maxSpared)
}
