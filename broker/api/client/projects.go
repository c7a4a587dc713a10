package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/hostler/hostler/broker/api"
)

// Projects lists the projects of an organisation, or of all with an empty reference; with ended,
// those that have ended, too.
func (c *Client) Projects(ctx context.Context, organisation string, ended bool) (all []api.Project, err error) {
	all = []api.Project{}
	q := endedQuery(ended)
	if organisation != "" {
		q.Set("organisation", organisation)
	}
	err = eachPage(ctx, c, at("projects"), q, func(l *api.ProjectList) string {
		all = append(all, l.Items...)
		return l.Next
	})
	return all, err
}

// Project returns a project by its id, its name, or ORGANISATION/NAME.
func (c *Client) Project(ctx context.Context, ref string) (*api.Project, error) {
	return fetch[api.Project](ctx, c, at("projects", ref), nil)
}

// CreateProject creates a project of an organisation.
func (c *Client) CreateProject(ctx context.Context, organisation string, p api.ProjectCreate) (*api.Project, error) {
	return submit[api.Project](ctx, c, http.MethodPost, at("organisations", organisation, "projects"), p)
}

// UpdateProject changes which nodes a project is given. It needs a platform_admin's token.
func (c *Client) UpdateProject(ctx context.Context, ref string, u api.ProjectUpdate) (*api.Project, error) {
	return submit[api.Project](ctx, c, http.MethodPatch, at("projects", ref), u)
}

// BindProject changes which operations run by themselves on a project's allocations.
func (c *Client) BindProject(ctx context.Context, ref string, b api.ProjectBindings) (*api.Project, error) {
	return submit[api.Project](ctx, c, http.MethodPatch, at("projects", ref, "operation-bindings"), b)
}

// EndProject ends a project. The record stays.
func (c *Client) EndProject(ctx context.Context, ref, reason string) (*api.Project, error) {
	return submit[api.Project](ctx, c, http.MethodPost, at("projects", ref, "end"), api.ReasonBody{Reason: reason})
}

// Quotas lists a project's quotas.
func (c *Client) Quotas(ctx context.Context, project string) (all []api.Quota, err error) {
	all = []api.Quota{}
	err = eachPage(ctx, c, at("projects", project, "quotas"), url.Values{}, func(l *api.QuotaList) string {
		all = append(all, l.Items...)
		return l.Next
	})
	return all, err
}

// SetQuota sets what a project may have of a SKU at the same time.
func (c *Client) SetQuota(ctx context.Context, project, sku string, q api.QuotaPut) (*api.Quota, error) {
	return submit[api.Quota](ctx, c, http.MethodPut, at("projects", project, "quotas", sku), q)
}
