package maas

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// AwaitedMachine finds a machine in a list, at most maxAge old, of only those machines for which
// runs wait: few of a region's machines. false: the list does not have the machine, or not yet.
func (r *Region) AwaitedMachine(ctx context.Context, id string, maxAge time.Duration) (Machine, bool, error) {
	if err := checkID("list machines", id); err != nil {
		return Machine{}, false, err
	}
	r.waits.add(id, r.Now())
	l, err := r.waitRoster.read(ctx, "list machines", maxAge, func(ctx context.Context) (Listing, error) {
		return r.FilteredMachines(ctx, ByID(r.waits.last(r.Now()))...)
	})
	m, ok := Snapshot{Machines: l.list.Machines}.Find(id)
	return m, ok, err
}

// awaitedIDs holds the ids of awaited machines, each with the time of its latest request.
type awaitedIDs struct {
	mu sync.Mutex
	at map[string]time.Time
}

// awaitedTime is how long a machine stays in the list after its latest request.
const awaitedTime = time.Minute

func (w *awaitedIDs) add(id string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at[id] = now
}

// last returns the ids that were requested within awaitedTime, sorted.
func (w *awaitedIDs) last(now time.Time) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.at, func(_ string, at time.Time) bool { return now.Sub(at) > awaitedTime })
	return slices.Sorted(maps.Keys(w.at))
}
