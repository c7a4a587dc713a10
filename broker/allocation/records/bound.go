package records

import (
	"context"
	"errors"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/allocation"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/operation"
	operationrecords "github.com/hostler/hostler/broker/operation/records"
)

// Bound implements allocation.Records. The id of the operation follows from the allocation, so a broker that died
// after the start finds what it has begun.
func (r *Records) Bound(
	ctx context.Context, a broker.Allocation, t broker.OperationTrigger, w allocation.Wish,
) (o *broker.Operation, waits string, err error) {
	found, err := r.DB.Operation(ctx, broker.BoundOperationID(a.ID, t))
	switch {
	case err != nil && broker.AsError(err).Code != "operation_not_found":
		return nil, "", err
	case err != nil && !w.Begin:
		return nil, "", nil
	case err != nil:
		return r.begin(ctx, a, t)
	case w.Begin && found.Status.Ended() && found.Status != broker.OperationSucceeded && found.EndedAt.Before(w.Again):
		start, err := r.Operations.Retry(ctx, found, chain.Actor{Name: broker.System.Name}, reasonOf(a))
		if err != nil {
			return nil, "", err
		}
		return r.started(ctx, found.ID, start)
	}
	return &found, "", nil
}

// Left implements allocation.Records.
func (r *Records) Left(ctx context.Context, a broker.Allocation, t broker.OperationTrigger) (l allocation.Left, err error) {
	sku, err := r.DB.SKU(ctx, a.SKU)
	if err != nil {
		return l, err
	}
	b := sku.Bindings.Of(t)
	o, err := r.DB.Operation(ctx, broker.BoundOperationID(a.ID, t))
	if err != nil && broker.AsError(err).Code == "operation_not_found" {
		if b != nil {
			l.Required, l.Failed = true, a.NodeIDs
		}
		return l, nil
	}
	if err != nil {
		return l, err
	}
	l.Operation, l.Required = &o, b != nil // also if the SKU names another by now: the one that began is retried
	for _, id := range o.NodeIDs {
		part, err := r.Operations.PartOf(ctx, o, id)
		switch {
		case err != nil:
			return l, err
		case part == operation.PartDone:
		case part == operation.PartRuns || !o.Status.Ended(): // its run may still ask the node
			l.Running = append(l.Running, id)
		case part == operation.PartUnread && r.silent(ctx, id):
			l.Silent = append(l.Silent, id)
		default:
			l.Failed = append(l.Failed, id)
		}
	}
	return l, nil
}

// silent reports whether a node is not heard of. One that cannot be read counts as heard: it has not done its part.
func (r *Records) silent(ctx context.Context, nodeID string) bool {
	n, err := r.DB.Node(ctx, nodeID)
	return err == nil && n.Status == broker.Offline
}

// begin begins the operation that the SKU names, or else the project.
func (r *Records) begin(ctx context.Context, a broker.Allocation, t broker.OperationTrigger) (*broker.Operation, string, error) {
	sku, err := r.DB.SKU(ctx, a.SKU)
	if err != nil {
		return nil, "", err
	}
	p, err := r.DB.Project(ctx, broker.Place{}, a.ProjectID)
	if err != nil {
		return nil, "", err
	}
	b := sku.Bindings.Over(p.Bindings).Of(t)
	if b == nil {
		return nil, "", nil
	}
	d, _, err := r.Operations.Definition(ctx, b.Operation)
	if err != nil {
		return nil, "", err
	}
	o, err := r.Operations.New(ctx, operationrecords.Order{
		Definition: d, Inputs: b.Inputs, Project: p, Allocation: a, Trigger: t, RequestedBy: broker.System.Name, Reason: reasonOf(a),
	})
	if err != nil {
		return nil, "", err
	}
	return r.started(ctx, o.ID, operationrecords.Start(o, ""))
}

// started starts the run of an operation. What another operation of the project keeps from beginning waits.
func (r *Records) started(ctx context.Context, id string, start chain.Start) (*broker.Operation, string, error) {
	_, err := r.Starts.Runs.Start(ctx, start)
	if l, locked := errors.AsType[*chain.Locked](err); locked {
		return nil, "run " + l.Taken[0].Run + " holds " + l.Taken[0].Lock, nil
	}
	if e := broker.AsError(err); err != nil && (e.Code == "operation_limit" || e.Code == "operation_concurrency_denied") {
		return nil, e.Message, nil
	}
	if err != nil {
		return nil, "", err
	}
	o, err := r.DB.Operation(ctx, id)
	return &o, "", err
}

func reasonOf(a broker.Allocation) string { return "allocation " + a.ID + " is " + string(a.Status) }

// EndOthers implements allocation.Records. A run of a group leaves what is released by itself, and may be held by a freeze of
// its site: the tasks on these nodes are withdrawn at once.
func (r *Records) EndOthers(ctx context.Context, a broker.Allocation) (map[string]string, error) {
	live, err := r.DB.OperationsOn(ctx, a.NodeIDs)
	if err != nil {
		return nil, err
	}
	running, reason := map[string]string{}, "allocation "+a.ID+" is released"
	for _, o := range live {
		if o.Trigger.Bound() && o.AllocationID == a.ID {
			continue
		}
		if o.Target != broker.TargetGroup {
			if err := r.GiveUp(ctx, o.ID, reason); err != nil {
				return nil, err
			}
		}
		for _, id := range o.NodeIDs {
			if !slices.Contains(a.NodeIDs, id) {
				continue
			}
			running[id] = o.ID
			if o.Target == broker.TargetGroup {
				if _, err := r.Operations.Withdraw(ctx, id, o.RunID, reason); err != nil {
					return nil, err
				}
			}
		}
	}
	return running, nil
}

// GiveUp implements allocation.Records. A release asks again and again, so that a look goes before the change.
func (r *Records) GiveUp(ctx context.Context, operationID, reason string) error {
	o, err := r.DB.Operation(ctx, operationID)
	if err != nil || o.Status.Ended() {
		return err
	}
	_, err = r.Operations.Cancel(ctx, broker.System, operationID, reason)
	return err
}
