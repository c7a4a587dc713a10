package records

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operation"
)

// PartOf says how an operation ended on one of its nodes. The newest task counts that the node has reported or still
// has: a node does one such task at a time, so that an earlier one has ended by then.
func (r *Records) PartOf(ctx context.Context, o broker.Operation, nodeID string) (operation.Part, error) {
	newest := operation.Part("")
	for attempt := o.Attempt; attempt > 0; attempt-- {
		tasks, err := r.Tasks(ctx, nodeID, runID(o.ID, attempt))
		if err != nil {
			return "", err
		}
		for _, k := range tasks {
			part := operation.PartOf(k)
			if newest == "" {
				newest = part
			}
			if part == operation.PartRuns {
				return part, nil
			}
			if part != operation.PartUnread {
				return newest, nil
			}
		}
	}
	return newest, nil
}
