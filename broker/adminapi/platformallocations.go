package adminapi

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
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
	waits, err := a.c.DB.AllocationWaits(ctx, found.ID)
	views[0].Waiting = taskcatalog.Clean(waits, 500)
	return &views[0], err
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
	if found, err = a.release(ctx, found, store.AllocationChange{By: broker.AllocationAdmin, Reason: reason, Force: true}); err != nil {
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

type explainAllocationInput struct {
	SKU   string `query:"sku" required:"true" minLength:"1" maxLength:"63"`
	Nodes int    `query:"nodes" minimum:"1" maximum:"1000" default:"1"`
	Site  string `query:"site" maxLength:"63" doc:"default: all sites that the caller sees"`

	Image string `query:"image" maxLength:"128" doc:"one of the SKU's; default: whatever the nodes have"`

	Spread string `query:"spread" enum:"zone,room,row,rack,domain" doc:"as of a request"`
	Pack   string `query:"pack" enum:"zone,room,row,rack,domain" doc:"as of a request"`

	Project string `query:"project" maxLength:"130" doc:"who asks; default: a project without a reservation"`
}

// explainAllocation judges all nodes of a SKU for a request.
func (a *API) explainAllocation(ctx context.Context, in *explainAllocationInput) (*api.AllocationExplanation, error) {
	sites, err := visibleSites(callerOf(ctx), in.Site)
	if err != nil {
		return nil, err
	}
	s, err := a.c.DB.SKU(ctx, in.SKU)
	if err != nil {
		return nil, err
	}
	var asks broker.Project
	if in.Project != "" {
		if asks, err = a.project(ctx, in.Project); err != nil {
			return nil, err
		}
	}
	nodes, kept, err := a.judged(ctx, s, sites)
	if err != nil {
		return nil, err
	}
	request := broker.AllocationRequest{
		SKU: s.ID, Nodes: in.Nodes, Site: in.Site, Image: in.Image, Arrangement: broker.Arrangement{Spread: in.Spread, Pack: in.Pack},
	}
	if err := request.Check(); err != nil {
		return nil, err
	}
	e := broker.Explain(s, request, nodes, kept, asks)
	out := &api.AllocationExplanation{
		SKU: s.ID, Nodes: in.Nodes, Image: in.Image, WouldFit: e.Refusal == nil, Site: e.Site,
		Fit: e.Fit, DoNotFit: e.DoNotFit, Places: e.Places, Reimages: e.Reimages,
		Sites: resources(e.Sites, func(c broker.ExplainedSite) api.AllocationSiteCounts { return api.AllocationSiteCounts(c) }),
		Reasons: resources(e.Reasons, func(r broker.ExplainedReason) api.AllocationReason {
			return api.AllocationReason{Code: r.Code, Nodes: r.Nodes, Examples: resources(r.Examples, explainedNode)}
		}),
	}
	if e.Refusal != nil {
		out.Code, out.Message = e.Refusal.Code, e.Refusal.Message
	}
	return out, nil
}

// judged returns the nodes of a SKU at sites (nil: all), and what is kept of all its free nodes.
func (a *API) judged(ctx context.Context, s broker.SKU, sites []string) (nodes []broker.JudgedNode, kept broker.Kept, err error) {
	inForce, held, err := a.c.DB.InForce(ctx, "", s.ID)
	if err != nil {
		return nil, kept, err
	}
	judgeAt := sites
	if len(inForce) > 0 { // a reservation of any site counts the nodes of all
		judgeAt = nil
	}
	if nodes, err = a.c.DB.JudgedNodes(ctx, s.ID, judgeAt); err != nil || len(inForce) == 0 {
		return nodes, kept, err
	}
	kept = broker.Keep(inForce[s.ID], held[s.ID], s.Free(nodes))
	return slices.DeleteFunc(nodes, func(n broker.JudgedNode) bool { return sites != nil && !slices.Contains(sites, n.Site) }), kept, nil
}

func explainedNode(n broker.ExplainedNode) api.AllocationReasonNode {
	return api.AllocationReasonNode{NodeID: n.ID, Hostname: n.Hostname, Site: n.Site, NextAction: n.Next}
}
