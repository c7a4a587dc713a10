package client

import (
	"context"
	"net/http"
	"time"

	"github.com/hostler/hostler/broker/api"
)

// ReconciliationStatus says for each site whether MAAS and the nodes agree. An empty site means all
// sites.
func (c *Client) ReconciliationStatus(ctx context.Context, site string) (*api.ReconciliationStatus, error) {
	return fetch[api.ReconciliationStatus](ctx, c, "/reconciliation/status", query("site", site))
}

// DriftFilter selects drifts; empty fields narrow nothing.
type DriftFilter struct {
	Site, Rule, Severity string
	Resolved             bool // also the drifts that were resolved within a week
}

// Drifts lists all drifts that match a filter.
func (c *Client) Drifts(ctx context.Context, f DriftFilter) (*api.DriftList, error) {
	all := &api.DriftList{Items: []api.Drift{}}
	q := query("site", f.Site, "rule", f.Rule, "severity", f.Severity, "limit", "1000")
	if f.Resolved {
		q.Set("resolved", "true")
	}
	for {
		page, err := fetch[api.DriftList](ctx, c, "/reconciliation/drift", q)
		if err != nil {
			return nil, err
		}
		all.Standing, all.Items = page.Standing, append(all.Items, page.Items...)
		if page.Next == "" {
			return all, nil
		}
		q.Set("cursor", page.Next)
	}
}

// ResolveDrift records that a node's drift is dealt with.
func (c *Client) ResolveDrift(ctx context.Context, node, reason string) (*api.Drift, error) {
	return submit[api.Drift](ctx, c, http.MethodPost, at("reconciliation", "drift", node, "resolve"), api.ReasonBody{Reason: reason})
}

// Reconcile starts a look at a site now, and waits a while for the result. With plan, Reconcile
// only returns the consequences of a look.
func (c *Client) Reconcile(ctx context.Context, site string, plan bool) (*api.ReconciliationRun, error) {
	q := query("site", site)
	if plan {
		q.Set("plan", "true")
	}
	out := new(api.ReconciliationRun)
	err := c.do(ctx, call{method: http.MethodPost, path: "/reconciliation/run", query: q, repeat: true, limit: time.Minute}, out)
	return out, err
}

// ReconcilePolicy returns a site's policy for drift.
func (c *Client) ReconcilePolicy(ctx context.Context, site string) (*api.SiteReconcilePolicy, error) {
	return fetch[api.SiteReconcilePolicy](ctx, c, at("maas-sites", site, "reconciliation"), nil)
}

// SetReconcilePolicy changes a site's policy for drift; omitted fields stay as they are.
func (c *Client) SetReconcilePolicy(ctx context.Context, site string, p api.SiteReconcilePolicyPut) (*api.SiteReconcilePolicy, error) {
	return submit[api.SiteReconcilePolicy](ctx, c, http.MethodPut, at("maas-sites", site, "reconciliation"), p)
}
