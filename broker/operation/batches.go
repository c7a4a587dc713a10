package operation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// runTask gives each node of the batches so far its task, and waits for all. Once a task was refused, or the target
// is not the requester's any more, the tasks are withdrawn and none is requested. Of a group that goes for the members
// that are not the project's any more.
func (c *Chains) runTask(ctx context.Context, r *run, o broker.Operation) error {
	s := &r.State
	if s.Code == "" {
		if err := c.take(ctx, r, o); err != nil {
			return err
		}
	}
	if s.Code == "" {
		if err := c.fits(ctx, r, o, s.under(o), false, r.EnteredAt); err != nil {
			return err
		}
	}
	var open error
	parts, below := partsOf(o), o.TraceParent.Below(o.Span())
	for place, node := range s.rest(o) {
		if s.Code != "" || o.Batches.Of(place) > s.Batch {
			break
		}
		part := parts[node]
		switch {
		case s.over(node):
			continue
		case slices.Contains(s.Lost, part.Member()):
			ended, err := c.left(ctx, r, o, node)
			if err != nil {
				return err
			}
			if !ended {
				open = chain.Again(soon, "the task of node %s was asked to stop, because %s any more", node, lostMember(part))
			}
			continue
		case o.NodeGroup() && !slices.Contains(s.Took, node): // it has taken the place of one that was skipped just now
			open = chain.Again(0, "node %s is to be taken", node)
			continue
		}
		k, err := c.Records.Request(ctx, taskstage.Task{
			Key: r.ID + "/" + node, NodeID: node, Type: TaskType, Params: o.PlanOf(part), RunID: r.ID, TraceParent: below,
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
	s := &r.State
	rest := s.rest(o)
	count := o.Batches.Count(len(rest))
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
	if err := c.fits(ctx, r, o, batch(o, rest, s.Batch+1), true, s.BatchOver); err != nil {
		return err
	}
	if s.Code != "" {
		s.Message = taskcatalog.Clean(fmt.Sprintf("batch %d of %d did not begin: %s", s.Batch+2, count, s.Message), 500)
		return nil
	}
	if len(s.rest(o)) < len(rest) {
		return chain.Again(0, "nodes of batch %d of %d are not the project's any more, and others take their places", s.Batch+2, count)
	}
	s.Batch, s.BatchOver = s.Batch+1, time.Time{}
	r.Apply(broker.BatchOperation{ID: o.ID, Batch: s.Batch + 1, Members: s.members(o, s.Ended)})
	return chain.Again(0, "batch %d of %d begins", s.Batch+1, count)
}

// batch is the nodes of a batch, from 0.
func batch(o broker.Operation, rest []string, n int) (nodes []string) {
	for place, node := range rest {
		if o.Batches.Of(place) == n {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// under is the nodes of the batches so far on which something may still happen.
func (s *Work) under(o broker.Operation) (nodes []string) {
	for place, node := range s.rest(o) {
		if o.Batches.Of(place) <= s.Batch && !s.over(node) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// untouched reports whether the node at a place among the rest has no task because its batch did not begin.
func (s *Work) untouched(o broker.Operation, place int) bool {
	return (s.Stopped != "" || s.Code != "") && o.Batches.Of(place) > s.Batch
}
