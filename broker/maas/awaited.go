package maas

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Awaited finds a machine among those that are waited for, as they were at most maxAge
// ago: of all machines of a region they are few. false: nobody had waited for that one yet.
func (r *Region) Awaited(ctx context.Context, id string, maxAge time.Duration) (Machine, bool, error) {
	if err := checkID("list machines", id); err != nil {
		return Machine{}, false, err
	}
	r.waits.add(id, r.Now())
	l, err := r.waitRoster.read(ctx, "list machines", maxAge, func(ctx context.Context) (Listing, error) {
		return r.Those(ctx, ByID(r.waits.last(r.Now()))...)
	})
	m, ok := Snapshot{Machines: l.list.Machines}.Find(id)
	return m, ok, err
}

// waits are the ids of machines that somebody waits for, and when they were asked for last.
type waits struct {
	mu sync.Mutex
	at map[string]time.Time
}

// waitsFor is how long a machine is read along after it was asked for.
const waitsFor = time.Minute

func (w *waits) add(id string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at[id] = now
}

// last are those that were asked for lately, in their order.
func (w *waits) last(now time.Time) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.at, func(_ string, at time.Time) bool { return now.Sub(at) > waitsFor })
	return slices.Sorted(maps.Keys(w.at))
}
