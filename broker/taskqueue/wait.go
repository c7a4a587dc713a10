package taskqueue

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

const (
	// cancelRepeat is how long a node that was told to stop a task has before it is told again: an
	// answer may have been lost, and a node that is busy stopping must not be answered in a loop.
	cancelRepeat = 10 * time.Second
	// maxDelivery is how many tasks one answer carries.
	maxDelivery = 8
)

// Wait answers with tasks to run and to stop as soon as there are any, and with an empty reply
// after hold. Codes: epoch_superseded, node_not_found.
func (q *Queue) Wait(ctx context.Context, p Peer, lanes []taskcatalog.Lane, hold time.Duration) (wire.WaitReply, error) {
	woken, leave := q.waiters.join("node/" + p.NodeID)
	defer leave()
	end := time.NewTimer(min(hold, wire.MaxWait))
	defer end.Stop()
	for told := false; ; {
		reply, err := q.Look(ctx, p, lanes, told)
		if err != nil || len(reply.Tasks)+len(reply.Cancel) > 0 {
			return reply, err
		}
		select {
		case <-woken:
			told = true
		case <-end.C:
			return reply, nil
		case <-ctx.Done():
			return reply, ctx.Err()
		}
	}
}

// Watch calls wake whenever there may be news for a node, until leave is called; the caller's own
// poll then looks. wake must not block.
func (q *Queue) Watch(nodeID string, wake func()) (leave func()) {
	return q.waiters.watch("node/"+nodeID, wake)
}

// Look takes the open tasks of a node. A poll without a hint makes no query for an idle node, and
// for another node reads before it claims: most polls find nothing, and a claim would write.
func (q *Queue) Look(ctx context.Context, p Peer, lanes []taskcatalog.Lane, told bool) (reply wire.WaitReply, err error) {
	if !told {
		if q.idle.at(p.NodeID, p.Epoch) {
			return reply, nil
		}
		found := q.idle.beginQuery(p.NodeID)
		nothing, err := q.c.DB.NothingOpen(ctx, p.NodeID, p.Epoch)
		if err == nil && nothing {
			found(p.Epoch)
		}
		if err != nil || nothing {
			return reply, err
		}
	}
	tasks, cancel, err := q.c.DB.ClaimTasks(ctx, p.NodeID, p.Epoch, lanes, maxDelivery)
	if err != nil {
		return reply, err
	}
	reply.Cancel = q.cancelsToSend(cancel)
	for _, k := range tasks {
		reply.Tasks = append(reply.Tasks, wire.Delivery{
			TaskID: k.ID, Attempt: k.Attempt, LeaseUntil: k.LeaseUntil,
			Envelope: string(k.Envelope),
		})
	}
	return reply, nil
}

// cancelsToSend leaves out tasks that the node was told to stop a moment ago.
func (q *Queue) cancelsToSend(cancel []string) []string {
	if len(cancel) == 0 {
		return nil
	}
	now := q.c.DB.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, at := range q.cancelSent {
		if now.Sub(at) >= cancelRepeat {
			delete(q.cancelSent, id)
		}
	}
	var fresh []string
	for _, id := range cancel {
		if _, ok := q.cancelSent[id]; !ok {
			q.cancelSent[id] = now
			fresh = append(fresh, id)
		}
	}
	return fresh
}

// AwaitEnd returns the task once it has ended, or in its present state after hold. Code:
// task_not_found.
func (q *Queue) AwaitEnd(ctx context.Context, taskID string, hold time.Duration) (broker.Task, error) {
	woken, leave := q.waiters.join("task/" + taskID)
	defer leave()
	end := time.NewTimer(hold)
	defer end.Stop()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		k, err := q.c.DB.Task(ctx, taskID)
		if err != nil || k.Status.Ended() {
			return k, err
		}
		select {
		case <-woken:
		case <-look.C:
		case <-end.C:
			return k, nil
		case <-ctx.Done():
			return k, ctx.Err()
		}
	}
}
