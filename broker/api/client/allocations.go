package client

import (
	"context"
	"net/http"
	"strconv"

	"github.com/hostler/hostler/broker/api"
)

// AllocationFilter narrows a list of allocations; empty fields narrow nothing.
type AllocationFilter struct {
	Status    string // one or more statuses, separated by commas
	SKU, Site string
	Labels    map[string]string
}

func (f AllocationFilter) list(ctx context.Context, c *Client, path string, project string) (*api.PlatformAllocationList, error) {
	q := query("status", f.Status, "sku", f.SKU, "site", f.Site, "project", project)
	for k, v := range f.Labels {
		q.Add("label", k+"="+v)
	}
	all := &api.PlatformAllocationList{Items: []api.PlatformAllocation{}}
	return all, eachPage(ctx, c, path, q, func(l *api.PlatformAllocationList) string {
		all.Standing, all.Items = l.Standing, append(all.Items, l.Items...)
		return l.Next
	})
}

// Allocations lists a project's allocations, newest first.
func (c *Client) Allocations(ctx context.Context, project string, f AllocationFilter) (*api.AllocationList, error) {
	all, err := f.list(ctx, c, at("projects", project, "allocations"), "")
	if err != nil {
		return nil, err
	}
	out := &api.AllocationList{Items: make([]api.Allocation, len(all.Items))}
	for i, v := range all.Items {
		out.Items[i] = v.Allocation
	}
	return out, nil
}

// Allocation returns an allocation of a project.
func (c *Client) Allocation(ctx context.Context, project, id string) (*api.Allocation, error) {
	return fetch[api.Allocation](ctx, c, at("projects", project, "allocations", id), nil)
}

// AllocationTimeline lists the statuses that an allocation of a project reached.
func (c *Client) AllocationTimeline(ctx context.Context, project, id string) (*api.AllocationTimeline, error) {
	return fetch[api.AllocationTimeline](ctx, c, at("projects", project, "allocations", id, "timeline"), nil)
}

// AllocationCertificates lists the certificates of the turnovers that ended an allocation of a project.
func (c *Client) AllocationCertificates(ctx context.Context, project, id string) (*api.AllocationCertificateList, error) {
	return fetch[api.AllocationCertificateList](ctx, c, at("projects", project, "allocations", id, "certificates"), nil)
}

// AllocationReceipt returns the tenant's receipt of one of these certificates.
func (c *Client) AllocationReceipt(ctx context.Context, project, id, certificate string) (*api.AllocationReceipt, error) {
	return fetch[api.AllocationReceipt](ctx, c, at("projects", project, "allocations", id, "certificates", certificate), nil)
}

// CreateAllocation asks for nodes for a project: all of them, at one site, or none.
func (c *Client) CreateAllocation(ctx context.Context, project string, a api.AllocationCreate) (*api.Allocation, error) {
	return begin[api.Allocation](ctx, c, at("projects", project, "allocations"), a)
}

// ReleaseAllocation begins the release of an allocation, or begins a failed release again.
func (c *Client) ReleaseAllocation(ctx context.Context, project, id, reason string) (*api.Allocation, error) {
	path := at("projects", project, "allocations", id, "release")
	return submit[api.Allocation](ctx, c, http.MethodPost, path, api.ReasonBody{Reason: reason})
}

// PlatformAllocations lists the allocations of all projects, or of one, newest first and with their
// nodes. It needs a token of the platform.
func (c *Client) PlatformAllocations(ctx context.Context, project string, f AllocationFilter) (*api.PlatformAllocationList, error) {
	return f.list(ctx, c, at("allocations"), project)
}

// PlatformAllocation returns an allocation of any project, with its nodes. It needs a token of the
// platform.
func (c *Client) PlatformAllocation(ctx context.Context, id string) (*api.PlatformAllocation, error) {
	return fetch[api.PlatformAllocation](ctx, c, at("allocations", id), nil)
}

// ExplainAllocation says whether a request of a project (empty: of one without a reservation) for nodes of a
// SKU would find them now (site empty: at any site; image empty: whatever they have; spread and pack as of a request), and why nodes do not
// fit. It needs a token of the platform.
func (c *Client) ExplainAllocation(
	ctx context.Context, sku string, nodes int, site, image, spread, pack, project string,
) (*api.AllocationExplanation, error) {
	q := query("sku", sku, "nodes", strconv.Itoa(nodes), "site", site, "image", image, "spread", spread, "pack", pack, "project", project)
	return fetch[api.AllocationExplanation](ctx, c, at("allocations", "explain"), q)
}

// ForceReleaseAllocation releases an allocation of any project. It needs a platform_admin's token.
func (c *Client) ForceReleaseAllocation(ctx context.Context, id, reason string) (*api.PlatformAllocation, error) {
	return submit[api.PlatformAllocation](ctx, c, http.MethodPost, at("allocations", id, "force-release"), api.ReasonBody{Reason: reason})
}
