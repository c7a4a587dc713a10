package agent

import (
	"context"
	"time"

	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/taskcatalog"
)

// lanesOfANode is the number of lanes.
const lanesOfANode = 2

// laneWidth is how many tasks of a lane run at once.
var laneWidth = map[taskcatalog.Lane]int{taskcatalog.LaneExclusive: 1, taskcatalog.LaneConcurrent: 4}

// lanes are semaphores, one per lane, that tasks hold while they run. More tasks may wait than run:
// a delivered task is not given back to the broker.
type lanes struct {
	places map[taskcatalog.Lane]chan struct{}
}

func newLanes() *lanes {
	l := &lanes{places: map[taskcatalog.Lane]chan struct{}{}}
	for lane, width := range laneWidth {
		l.places[lane] = make(chan struct{}, width)
	}
	return l
}

// enter waits for a place in the lane. leave gives the place back.
func (l *lanes) enter(ctx context.Context, lane taskcatalog.Lane) error {
	select {
	case l.places[lane] <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// try takes a place in the lane if a place is free, without waiting.
func (l *lanes) try(lane taskcatalog.Lane) bool {
	select {
	case l.places[lane] <- struct{}{}:
		return true
	default:
		return false
	}
}

func (l *lanes) leave(lane taskcatalog.Lane) { <-l.places[lane] }

// freeLanes returns the lanes with room for another task.
func (a *Agent) freeLanes() []taskcatalog.Lane {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := map[taskcatalog.Lane]int{}
	for _, r := range a.running {
		taken[r.typ.Lane]++
	}
	var free []taskcatalog.Lane
	for _, lane := range []taskcatalog.Lane{taskcatalog.LaneExclusive, taskcatalog.LaneConcurrent} {
		if taken[lane] < laneWidth[lane] {
			free = append(free, lane)
		}
	}
	return free
}

// shortTask is how long the agent waits for a task to end before it polls for the other lane alone:
// most tasks end sooner, and then a single poll serves both lanes.
const shortTask = 500 * time.Millisecond

// awaitLane returns the free lanes. With no lane free there is nothing to poll for: cancels arrive
// in the answers to progress. After a minute awaitLane returns an empty list, so that the main loop
// turns.
func (a *Agent) awaitLane(ctx context.Context) []taskcatalog.Lane {
	short, long := time.NewTimer(shortTask), time.NewTimer(uplink.LongPause)
	defer short.Stop()
	defer long.Stop()
	impatient := false
	for {
		free := a.freeLanes()
		if len(free) == lanesOfANode || impatient && len(free) > 0 {
			return free
		}
		select {
		case <-a.freed:
		case <-short.C:
			impatient = true
		case <-long.C:
			return free
		case <-ctx.Done():
			return free
		}
	}
}
