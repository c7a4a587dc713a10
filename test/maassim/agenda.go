package maassim

import (
	"container/heap"
	"time"
)

// agenda holds the region's future events, ordered by time and then by the order of scheduling. An
// event runs only when a call enters the region at or after the event's time.
type agenda []*appointment

type appointment struct {
	at       time.Time
	order    int
	machine  *machine // the machine whose process the event belongs to; nil if none
	process  int      // the event is void once the machine is in another process
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

// Push implements heap.Interface.
func (a *agenda) Push(x any) { *a = append(*a, x.(*appointment)) }

// Pop implements heap.Interface.
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	return last
}

// Tick runs every event due by now. Each call to the region runs the due events first; a test that
// only reads machines calls Tick itself.
func (r *Region) Tick() {
	defer r.enter()()
}

// enter locks the region and runs every event due by now. The caller unlocks the region with leave.
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

// Due returns the time of the next scheduled event; ok is false if none is scheduled. A simulation
// jumps its clock to that time.
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

// after schedules f at d from now.
func (r *Region) after(d time.Duration, f func()) {
	r.order++
	heap.Push(&r.agenda, &appointment{at: r.moment.Add(d), order: r.order, happened: f})
}

// after schedules f at d from now. f does not run if the machine is in another process by then.
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
