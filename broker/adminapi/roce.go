package adminapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog"
)

type roceInput struct {
	SiteInput
	PageInput
	Hostname string `query:"hostname" maxLength:"253"`
}

func (a *API) listRoCE(ctx context.Context, in *roceInput) (*api.RoCEList, error) {
	s, err := a.site(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	hostname, ok := broker.CanonicalHostname(in.Hostname)
	if !ok && in.Hostname != "" {
		return nil, broker.Errorf(broker.Invalid, "roce_invalid", "cannot list RoCE assignments: %q is not a hostname",
			taskcatalog.Clean(in.Hostname, 100))
	}
	all, err := a.c.DB.RoCEAssignments(ctx, s.ID, hostname)
	if err != nil {
		return nil, err
	}
	out := &api.RoCEList{Items: make([]api.RoCEAssignment, len(all))}
	for i, r := range all {
		out.Items[i] = roceResource(r)
	}
	return out, cut(in.PageInput, &out.Items, &out.Next, func(r api.RoCEAssignment) string { return r.ID })
}

type putRoCEInput struct {
	SiteInput
	Body api.RoCEPut
}

func (a *API) putRoCE(ctx context.Context, in *putRoCEInput) (*api.RoCEResult, error) {
	s, err := a.site(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	items := make([]broker.RoCEAssignment, len(in.Body.Items))
	for i, r := range in.Body.Items {
		items[i] = broker.RoCEAssignment{
			ID: uuid.NewString(), SiteID: s.ID, Hostname: r.Hostname, Interface: r.Interface,
			IPv4CIDR: r.IPv4CIDR,
		}
	}
	created, updated, err := a.c.DB.PutRoCE(ctx, callerOf(ctx).actor(), s.ID, items, taskcatalog.Clean(in.Body.Reason, 500))
	if err != nil {
		return nil, err
	}
	return &api.RoCEResult{Created: created, Updated: updated, Unchanged: len(items) - created - updated}, nil
}

type removeRoCEInput struct {
	SiteInput
	Assignment string `path:"assignment" maxLength:"63"`
	Reason
}

func (a *API) removeRoCE(ctx context.Context, in *removeRoCEInput) (*api.RoCEAssignment, error) {
	s, err := a.site(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Reason.Reason, "site.roce.remove", "site/"+s.Name, "remove a RoCE assignment of site "+s.Name)
	if err != nil {
		return nil, err
	}
	r, err := a.c.DB.RemoveRoCE(ctx, callerOf(ctx).actor(), s.ID, in.Assignment, reason)
	if err != nil {
		return nil, err
	}
	out := roceResource(r)
	return &out, nil
}

func roceResource(r broker.RoCEAssignment) api.RoCEAssignment {
	return api.RoCEAssignment{
		ID: r.ID, SiteID: r.SiteID, RoCEItem: api.RoCEItem{Hostname: r.Hostname, Interface: r.Interface, IPv4CIDR: r.IPv4CIDR},
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}
