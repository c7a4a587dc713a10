package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
)

// mostStates bounds the timeline of an allocation. One without a failure has five states.
const mostStates = 200

// allocationTimeline lists the statuses that an allocation reached, as its tenant may see them: no
// node, no run, no reason in an operator's words, and of the platform no name.
func (a *API) allocationTimeline(ctx context.Context, in *projectAllocationInput) (*api.AllocationTimeline, error) {
	found, err := a.allocation(ctx, in.Project, in.Allocation)
	if err != nil {
		return nil, err
	}
	states, earlier, err := a.c.DB.AllocationTimeline(ctx, found.ID, mostStates)
	if err != nil {
		return nil, err
	}
	return &api.AllocationTimeline{
		AllocationID: found.ID, Earlier: earlier,
		Items: resources(states, func(s store.AllocationState) api.AllocationTimelineEvent {
			return api.AllocationTimelineEvent{At: s.At, Status: string(s.Status), By: s.By, Code: s.Code}
		}),
	}, nil
}
