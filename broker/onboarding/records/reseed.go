package records

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/hwsync"
)

// Reseed implements onboarding.Nodes. The machine's token goes to the node's secret, from which the
// task fetches it when it runs, and never into the task's params.
func (n *Nodes) Reseed(ctx context.Context, key, nodeID string, token taskcatalog.MAASMachineToken, interval time.Duration) (bool, error) {
	if _, err := token.Rack(); err != nil {
		return false, err
	}
	task, had, err := n.DB.TaskByKey(ctx, nodeID, key)
	if err != nil {
		return false, err
	}
	if !had {
		secret, err := json.Marshal(token)
		if err != nil {
			return false, err
		}
		if err := secrets.PutNodeToken(ctx, n.Secrets, nodeID, secret); err != nil {
			return false, err
		}
		params, err := taskcatalog.Encode(taskcatalog.HWSyncReseedParams{IntervalMinutes: hwsync.Minutes(interval)})
		if err != nil {
			return false, err
		}
		task, _, err = n.Queue.Enqueue(ctx, broker.System,
			taskqueue.Request{NodeID: nodeID, Type: "node.hw_sync_reseed", Params: params, IdempotencyKey: key})
		if err != nil {
			return false, err
		}
	}
	switch {
	case !task.Status.Ended():
		return false, nil
	case task.Status == broker.TaskSucceeded:
		return true, nil
	}
	return false, broker.Errorf(broker.Refused, "reseed_failed", "task %s of node %s ended %s: %s", task.ID, nodeID, task.Status,
		task.Message)
}
