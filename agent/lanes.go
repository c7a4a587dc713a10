package agent

import (
	"context"
	"time"

	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/taskcatalog"
)

// lanesOfANode is how many lanes there are.
const lanesOfANode = 2

// How many tasks of a lane run at once.
var laneWidth = map[taskcatalog.Lane]int{taskcatalog.LaneExclusive: 1, taskcatalog.LaneConcurrent: 4}

// lanes are the places in which tasks run. More may be waiting than run: what the
// broker has delivered is not given back.
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

// enter waits for a place. leave gives it back.
func (l *lanes) enter(ctx context.Context, lane taskcatalog.Lane) error {
	select {
	case l.places[lane] <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// try takes a place if there is one, without waiting.
func (l *lanes) try(lane taskcatalog.Lane) bool {
	select {
	case l.places[lane] <- struct{}{}:
		return true
	default:
		return false
	}
}

func (l *lanes) leave(lane taskcatalog.Lane) { <-l.places[lane] }

// freeLanes are the lanes with room for what the broker may send next.
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

// shortTask is how long the agent waits for a task to end before it polls for
// the other lane alone: most end sooner, and one poll serves both lanes.
const shortTask = 500 * time.Millisecond

// awaitLane returns the free lanes. While none is free there is nothing to poll
// for: cancels come in the answers to progress. It returns with none after a
// minute, so that the main loop is seen to turn.
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
