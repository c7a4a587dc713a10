package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
)

type allAllocationsInput struct {
	AllocationPageInput
	Project string `query:"project" maxLength:"130" doc:"only allocations of this project: an id, a name, or ORGANISATION/NAME"`
}

func (a *API) listAllAllocations(ctx context.Context, in *allAllocationsInput) (*api.PlatformAllocationList, error) {
	projectID := ""
	if in.Project != "" {
		p, err := a.project(ctx, in.Project)
		if err != nil {
			return nil, err
		}
		projectID = p.ID
	}
	f, err := in.filter(callerOf(ctx), projectID)
	if err != nil {
		return nil, err
	}
	page, next, err := a.c.DB.Allocations(ctx, f)
	if err != nil {
		return nil, err
	}
	items, err := a.platformViews(ctx, page...)
	return &api.PlatformAllocationList{Items: items, Next: next}, err
}

// anyAllocation finds an allocation of any project at a site that the caller may see.
func (a *API) anyAllocation(ctx context.Context, id string) (broker.Allocation, error) {
	found, err := a.c.DB.Allocation(ctx, id)
	return seenBy(callerOf(ctx), found, err)
}

func (a *API) showAnyAllocation(ctx context.Context, in *AllocationInput) (*api.PlatformAllocation, error) {
	found, err := a.anyAllocation(ctx, in.Allocation)
	if err != nil {
		return nil, err
	}
	views, err := a.platformViews(ctx, found)
	if err != nil {
		return nil, err
	}
	return &views[0], nil
}

type forceReleaseInput struct {
	AllocationInput
	Body api.ReasonBody
}

func (a *API) forceRelease(ctx context.Context, in *forceReleaseInput) (*api.PlatformAllocation, error) {
	found, err := a.anyAllocation(ctx, in.Allocation)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Body.Reason, "allocation.transition", "allocation/"+found.ID, "release allocation "+found.ID+" by force")
	if err != nil {
		return nil, err
	}
	if found, err = a.release(ctx, found, broker.AllocationAdmin, reason); err != nil {
		return nil, err
	}
	views, err := a.platformViews(ctx, found)
	if err != nil {
		return nil, err
	}
	return &views[0], nil
}

// platformViews returns the read models of allocations for the platform.
func (a *API) platformViews(ctx context.Context, page ...broker.Allocation) ([]api.PlatformAllocation, error) {
	views, err := a.tenantsViews(ctx, page)
	if err != nil {
		return nil, err
	}
	out := make([]api.PlatformAllocation, len(views))
	for i, v := range views {
		out[i] = api.PlatformAllocation{Allocation: v, NodeIDs: append([]string{}, page[i].NodeIDs...)}
	}
	return out, nil
}
