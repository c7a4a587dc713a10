package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog"
)

type quotasInput struct {
	ProjectInput
	Cursor string `query:"cursor" maxLength:"64"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000"`
}

func (a *API) listQuotas(ctx context.Context, in *quotasInput) (*api.QuotaList, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	page, next, err := a.c.DB.Quotas(ctx, p.ID, in.Cursor, pageLimit(in.Limit))
	if err != nil {
		return nil, err
	}
	return &api.QuotaList{Items: resources(page, quotaResource), Next: next}, nil
}

type setQuotaInput struct {
	ProjectInput
	SKUInput
	Body api.QuotaPut
}

func (a *API) setQuota(ctx context.Context, in *setQuotaInput) (*api.Quota, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return resource(quotaResource)(a.c.Tenants.SetQuota(ctx, callerOf(ctx).actor(), broker.Quota{
		ProjectID: p.ID, SKU: in.SKU, Nodes: in.Body.Nodes, GPUs: in.Body.GPUs,
	}, taskcatalog.Clean(in.Body.Reason, 500)))
}

func quotaResource(q broker.Quota) api.Quota {
	return api.Quota{ProjectID: q.ProjectID, SKU: q.SKU, Nodes: q.Nodes, GPUs: q.GPUs, UpdatedAt: q.UpdatedAt}
}
