package reconcile

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/hwsync"
)

// Agents is a Reseeder over the task queue. The machine's token goes to the node when its task
// runs, as with every such task.
type Agents struct{ Queue *taskqueue.Queue }

// Reseed implements Reseeder.
func (a Agents) Reseed(ctx context.Context, nodeID, key string, interval time.Duration) (string, error) {
	params, err := taskcatalog.Encode(taskcatalog.HWSyncReseedParams{IntervalMinutes: hwsync.Minutes(interval)})
	if err != nil {
		return "", err
	}
	task, _, err := a.Queue.Enqueue(ctx, broker.System,
		taskqueue.Request{NodeID: nodeID, Type: "node.hw_sync_reseed", Params: params, IdempotencyKey: key})
	return task.ID, err
}
