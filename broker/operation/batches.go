package operation

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// runTask gives each node of the batches so far its task, and waits for all. Once a task was refused, or the target
// is not the requester's any more, the tasks are withdrawn and none is requested.
func (c *Chains) runTask(ctx context.Context, r *run, o broker.Operation) error {
	s := &r.State
	if s.Code == "" {
		if err := c.fits(ctx, r, o, nil, r.EnteredAt); err != nil {
			return err
		}
	}
	var open error
	below := o.TraceParent.Below(o.Span())
	for place, node := range o.NodeIDs {
		if s.Code != "" || o.Batches.Of(place) > s.Batch {
			break
		}
		if _, over := s.Ended[node]; over {
			continue
		}
		k, err := c.Records.Request(ctx, taskstage.Task{
			Key: r.ID + "/" + node, NodeID: node, Type: TaskType, Params: o.PlanOf(), RunID: r.ID, TraceParent: below,
		})
		e := broker.AsError(err)
		switch {
		case err != nil && (e.Kind == broker.Refused || e.Kind == broker.NotFound || e.Kind == broker.Invalid):
			s.refuse(e)
		case err != nil:
			return taskstage.Records(err)
		case k.Status.Ended():
			code, _ := judge(o, k, Rows(o, k))
			s.note(node, code)
		default:
			c.tell(r, o, node, k)
			open = chain.Again(soon, "task %s of node %s is %s", k.ID, node, k.Status)
		}
	}
	switch {
	case s.Code != "":
		return c.withdraw(ctx, r, o, s.Message)
	case open != nil:
		return c.orLate(ctx, r, o, open)
	}
	return c.nextBatch(ctx, r, o)
}

// note notes how the task of a node ended, so that its result is not read again. The code is empty if the task
// did what it was to do.
func (s *Work) note(node, code string) {
	s.Ended = maps.Clone(s.Ended)
	if s.Ended == nil {
		s.Ended = map[string]string{}
	}
	s.Ended[node] = code
}

// nextBatch begins the batch after one whose tasks have all ended, unless too many nodes have failed, or a request
// for the operation would be refused now. That a batch begins is stored before one of its nodes gets a task.
func (c *Chains) nextBatch(ctx context.Context, r *run, o broker.Operation) error {
	s, count := &r.State, o.Batches.Count(len(o.NodeIDs))
	if s.Batch+1 >= count {
		return nil
	}
	failed := 0
	for _, code := range s.Ended {
		if code != "" {
			failed++
		}
	}
	if o.Batches.Stops(s.Batch, failed) {
		s.Stopped = fmt.Sprintf("%d of the nodes of batches 1 to %d failed, and none of the other %d batches began", failed, s.Batch+1,
			count-s.Batch-1)
		return nil
	}
	if s.BatchOver.IsZero() {
		s.BatchOver = r.Clock()
	}
	if err := c.fits(ctx, r, o, batch(o, s.Batch+1), s.BatchOver); err != nil {
		return err
	}
	if s.Code != "" {
		s.Message = taskcatalog.Clean(fmt.Sprintf("batch %d of %d did not begin: %s", s.Batch+2, count, s.Message), 500)
		return nil
	}
	s.Batch, s.BatchOver = s.Batch+1, time.Time{}
	r.Apply(broker.BatchOperation{ID: o.ID, Batch: s.Batch + 1})
	return chain.Again(0, "batch %d of %d begins", s.Batch+1, count)
}

// batch is the nodes of a batch, from 0.
func batch(o broker.Operation, n int) (nodes []string) {
	for place, node := range o.NodeIDs {
		if o.Batches.Of(place) == n {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// untouched reports whether the node at a place has no task because its batch did not begin.
func (s *Work) untouched(o broker.Operation, place int) bool {
	return (s.Stopped != "" || s.Code != "") && o.Batches.Of(place) > s.Batch
}
