package maas

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// leastAge is how old a list may always be: no region is asked for its machines
// more than once in that time.
const leastAge = time.Second

// Snapshot is all machines of a region at one moment. It is shared: nobody
// changes it.
type Snapshot struct {
	At       time.Time // when the list was asked for
	Machines []Machine
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

// roster reads a region's machines once for all who ask.
type roster struct {
	now    func() time.Time
	flight singleflight.Group

	mu   sync.Mutex
	last Snapshot
	err  error // of the last try
}

// Machines lists the region's machines as they were at most maxAge ago (a second
// at least), or as they are read already for somebody else. A failure, too, is
// everybody's for a second.
func (r *Region) Machines(ctx context.Context, maxAge time.Duration) (Snapshot, error) {
	if s, err, ok := r.roster.fresh(max(maxAge, leastAge)); ok {
		return s, err
	}
	// Who asked first may go away: the list goes on for those behind.
	read := r.roster.flight.DoChan("", func() (any, error) {
		if s, err, ok := r.roster.fresh(leastAge); ok {
			return s, err
		}
		at := r.now()
		machines, err := r.list(context.WithoutCancel(ctx))
		return r.roster.keep(Snapshot{At: at, Machines: machines}, err)
	})
	select {
	case got := <-read:
		s, _ := got.Val.(Snapshot)
		return s, got.Err
	case <-ctx.Done():
		return Snapshot{}, &Error{Class: Timeout, Op: "list machines", Detail: "no answer in time", err: ctx.Err()}
	}
}

func (r *roster) fresh(maxAge time.Duration) (Snapshot, error, bool) { //nolint:revive // the last says whether the others count
	r.mu.Lock()
	defer r.mu.Unlock()
	age := r.now().Sub(r.last.At)
	if r.err != nil {
		return Snapshot{}, r.err, age < leastAge
	}
	return r.last, nil, !r.last.At.IsZero() && age < maxAge
}

func (r *roster) keep(s Snapshot, err error) (Snapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.err = s, err
	return s, err
}
