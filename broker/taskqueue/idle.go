package taskqueue

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
)

// lookAgain is how often the queue looks which nodes have something open, although no
// hint said so: hints may be lost.
const lookAgain = 20 * time.Second

// lookTimeout is how long that may take, and wakeTime over how long the polls that it finds
// something for are woken.
const (
	lookTimeout = 5 * time.Second
	wakeTime    = 2 * time.Second
)

// idle are the nodes of which the database said that nothing is open for them, and of
// which nothing was heard since: their polls need not ask it. What is wrong here for
// lack of a hint is put right by the next look. While nobody follows the hints none
// is known of.
type idle struct {
	mu sync.Mutex
	of map[string]*mark // by node; nil: nobody follows the hints
}

// mark is what is known of one node. It counts only while it is the one in idle.of.
type mark struct{ epoch int64 }

// at reports whether nothing is open for a node at this epoch.
func (i *idle) at(nodeID string, epoch int64) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := i.of[nodeID]
	return m != nil && m.epoch == epoch
}

// asking is called before the database is asked, so that a hint that comes meanwhile is
// not lost: call found on what it returns if nothing is open.
func (i *idle) asking(nodeID string) (found func(epoch int64)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := new(mark)
	if i.of != nil {
		i.of[nodeID] = m
	}
	return func(epoch int64) {
		i.mu.Lock()
		defer i.mu.Unlock()
		m.epoch = epoch
	}
}

// follow begins with nothing known, and ends so when the returned function is called.
func (i *idle) follow() (end func()) {
	set := func(of map[string]*mark) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.of = of
	}
	set(map[string]*mark{})
	return func() { set(nil) }
}

// over is for a node that there is something for.
func (i *idle) over(nodeID string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.of, nodeID)
}

// forget has nothing known: what was being asked meanwhile neither.
func (i *idle) forget() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.of)
}

// keepLooking looks now and then until ctx ends.
func (q *Queue) keepLooking(ctx context.Context) {
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			q.lookForOpen(ctx)
		case <-q.missed:
			q.waiters.wakeAll("task/")
			q.lookForOpen(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// lookForOpen wakes the polls of all nodes for which there is something: one question,
// however many wait, and not all at once, as each then claims. Where there is no answer nothing is known any more, and polls ask
// for themselves: what no hint told of would stay unseen.
func (q *Queue) lookForOpen(ctx context.Context) {
	asked, done := context.WithTimeout(ctx, lookTimeout)
	defer done()
	nodes, err := q.toTell(asked)
	if err != nil {
		q.idle.forget()
		if ctx.Err() == nil {
			q.c.Log.Warn("cannot look which nodes have tasks", zap.Error(err))
		}
		return
	}
	for _, id := range nodes {
		q.idle.over(id)
	}
	for i, id := range nodes {
		if i > 0 {
			pause(ctx, wakeTime/time.Duration(len(nodes)))
		}
		q.waiters.wake("node/" + id)
	}
}

// pause waits for a while, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
