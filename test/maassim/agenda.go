package maassim

import (
	"container/heap"
	"time"
)

// agenda is what will happen by itself, by time and then by the order in which
// it was written down. Nothing runs it but a look at the region at a later time.
type agenda []*appointment

type appointment struct {
	at       time.Time
	order    int
	machine  *machine // nil, or whose process it belongs to
	process  int      // void once the machine is in another process
	happened func()
}

func (a agenda) Len() int { return len(a) }

func (a agenda) Less(i, j int) bool {
	if !a[i].at.Equal(a[j].at) {
		return a[i].at.Before(a[j].at)
	}
	return a[i].order < a[j].order
}

func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push is heap.Interface's.
func (a *agenda) Push(x any) { *a = append(*a, x.(*appointment)) }

// Pop is heap.Interface's.
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	return last
}

// Tick lets everything happen that is due by now. Each call to the region does
// so first; a test that only looks at machines does it by itself.
func (r *Region) Tick() {
	defer r.enter()()
}

// enter takes the region, with everything done that is due by now.
func (r *Region) enter() (leave func()) {
	r.once.Do(r.begin)
	r.mu.Lock()
	now := r.Now()
	for len(r.agenda) > 0 && !r.agenda[0].at.After(now) {
		next := heap.Pop(&r.agenda).(*appointment)
		if next.machine != nil && (next.machine.gone || next.machine.process != next.process) {
			continue
		}
		r.moment = later(r.moment, next.at)
		next.happened()
	}
	r.moment = later(r.moment, now)
	return r.mu.Unlock
}

// Due is when something happens next by itself; ok is false when nothing will.
// A simulation jumps its clock there.
func (r *Region) Due() (at time.Time, ok bool) {
	defer r.enter()()
	for len(r.agenda) > 0 {
		next := r.agenda[0]
		if next.machine == nil || (!next.machine.gone && next.machine.process == next.process) {
			return next.at, true
		}
		heap.Pop(&r.agenda)
	}
	return time.Time{}, false
}

// after has f happen later by d.
func (r *Region) after(d time.Duration, f func()) {
	r.order++
	heap.Push(&r.agenda, &appointment{at: r.moment.Add(d), order: r.order, happened: f})
}

// after has f happen later by d, unless the machine is in another process by then.
func (m *machine) after(d time.Duration, f func()) {
	m.region.order++
	heap.Push(&m.region.agenda, &appointment{
		at: m.region.moment.Add(d), order: m.region.order, machine: m, process: m.process, happened: f,
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
