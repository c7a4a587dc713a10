package maas

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Awaited finds a machine in a list, at most maxAge old, of only those machines for which runs
// wait: few of a region's machines. false: the list does not have the machine, or not yet.
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

// waits holds the ids of awaited machines, each with the time of its latest request.
type waits struct {
	mu sync.Mutex
	at map[string]time.Time
}

// waitsFor is how long a machine stays in the list after its latest request.
const waitsFor = time.Minute

func (w *waits) add(id string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at[id] = now
}

// last returns the ids that were requested within waitsFor, sorted.
func (w *waits) last(now time.Time) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.at, func(_ string, at time.Time) bool { return now.Sub(at) > waitsFor })
	return slices.Sorted(maps.Keys(w.at))
}
