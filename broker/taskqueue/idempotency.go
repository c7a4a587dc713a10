package taskqueue

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

const maxKey = 200 // bytes of an idempotency key

// repeat answers a known idempotency key, whatever the node's present state.
func (q *Queue) repeat(ctx context.Context, typ taskcatalog.Type, r Request) (broker.Task, bool, error) {
	if r.IdempotencyKey == "" {
		return broker.Task{}, false, nil
	}
	had, ok, err := q.c.DB.TaskByKey(ctx, r.NodeID, r.IdempotencyKey)
	if err != nil || !ok {
		return had, false, err
	}
	return q.c.DB.InsertTask(ctx, broker.Actor{}, broker.Task{
		NodeID: r.NodeID, Type: typ.Name, Version: typ.Version, Params: r.Params, IdempotencyKey: r.IdempotencyKey,
	})
}
