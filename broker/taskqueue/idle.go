package taskqueue

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
)

// lookAgain is the interval of the queue's own look for open tasks: hints may be lost.
const lookAgain = 20 * time.Second

// lookTimeout is the time limit of a look. wakeTime is the time over which the polls with open
// tasks are woken.
const (
	lookTimeout = 5 * time.Second
	wakeTime    = 2 * time.Second
)

// idle are the nodes without open tasks, by the database, and without hints since: their polls
// need no query. A lost hint is corrected by the next look. While no hints are followed, no node
// counts as idle.
type idle struct {
	mu     sync.Mutex
	byNode map[string]*mark // by node; nil: hints are not followed
}

// mark is the knowledge about one node. A mark counts only while it is in idle.byNode.
type mark struct{ epoch int64 }

// at reports whether nothing is open for a node at this epoch.
func (i *idle) at(nodeID string, epoch int64) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := i.byNode[nodeID]
	return m != nil && m.epoch == epoch
}

// beginQuery is called before a query, so that a hint during the query is not lost. The caller
// calls found if the query finds nothing open.
func (i *idle) beginQuery(nodeID string) (found func(epoch int64)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := new(mark)
	if i.byNode != nil {
		i.byNode[nodeID] = m
	}
	return func(epoch int64) {
		i.mu.Lock()
		defer i.mu.Unlock()
		m.epoch = epoch
	}
}

// follow starts with no idle nodes, and the returned function clears them again.
func (i *idle) follow() (end func()) {
	set := func(of map[string]*mark) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.byNode = of
	}
	set(map[string]*mark{})
	return func() { set(nil) }
}

// clear marks a node as not idle.
func (i *idle) clear(nodeID string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.byNode, nodeID)
}

// forget marks all nodes as not idle, also nodes with a query in progress.
func (i *idle) forget() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.byNode)
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

// lookForOpen wakes the polls of all nodes with open tasks: one query for all polls, spread over
// wakeTime, because each poll then claims. If the query fails, all nodes count as not idle and
// polls query for themselves, so that no task stays unseen.
func (q *Queue) lookForOpen(ctx context.Context) {
	asked, done := context.WithTimeout(ctx, lookTimeout)
	defer done()
	nodes, err := q.nodesWithTasks(asked)
	if err != nil {
		q.idle.forget()
		if ctx.Err() == nil {
			q.c.Log.Warn("cannot list the nodes that have tasks", zap.Error(err))
		}
		return
	}
	for _, id := range nodes {
		q.idle.clear(id)
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
