package adminapi

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
)

// mostUsage is the longest period of usage.
const mostUsage = 400 * 24 * time.Hour

// UsagePeriodInput selects a page of the usage within a period. The type is exported because huma
// ignores embedded structs with unexported names.
type UsagePeriodInput struct {
	From   time.Time `query:"from" doc:"start of the period; default: the first of the month in which the period ends, UTC"`
	To     time.Time `query:"to" doc:"end of the period, exclusive; default and at most: now"`
	Site   string    `query:"site" maxLength:"63"`
	Cursor string    `query:"cursor" maxLength:"64"`
	Limit  int       `query:"limit" minimum:"0" maximum:"1000"`
}

// filter is the usage of a project (empty: all) that the caller may see, until now at most. Codes:
// site_forbidden, period_invalid.
func (in UsagePeriodInput) filter(who caller, projectID string, now time.Time) (f store.UsageFilter, err error) {
	f = store.UsageFilter{ProjectID: projectID, To: in.To.UTC(), After: in.Cursor, Limit: pageLimit(in.Limit)}
	switch {
	case who.Place.OfPlatform():
		f.Sites, err = visibleSites(who, in.Site)
	case in.Site != "": // a tenant sees its usage at all sites
		f.Sites = []string{in.Site}
	}
	if err != nil {
		return f, err
	}
	if in.To.IsZero() || f.To.After(now) {
		f.To = now
	}
	if f.From = in.From.UTC(); in.From.IsZero() {
		last := f.To.Add(-time.Microsecond) // a period that ends with a month is of that month
		f.From = time.Date(last.Year(), last.Month(), 1, 0, 0, 0, 0, time.UTC)
	}
	f.From, f.To = f.From.Truncate(time.Microsecond), f.To.Truncate(time.Microsecond)
	if !f.From.Before(f.To) || f.To.Sub(f.From) > mostUsage {
		return f, broker.Errorf(broker.Invalid, "period_invalid", "cannot show usage from %s to %s: a period begins before it ends, "+
			"ends now at the latest, and lasts at most 400 days (name another from or to)", f.From.Format(time.RFC3339),
			f.To.Format(time.RFC3339))
	}
	return f, nil
}

type projectUsageInput struct {
	ProjectInput
	UsagePeriodInput
}

// projectUsage returns what a project has used.
func (a *API) projectUsage(ctx context.Context, in *projectUsageInput) (*api.UsageList, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return a.usage(ctx, in.UsagePeriodInput, p.ID)
}

type allUsageInput struct{ UsagePeriodInput }

// allUsage returns what all projects have used, for who bills them.
func (a *API) allUsage(ctx context.Context, in *allUsageInput) (*api.PlatformUsageList, error) {
	l, err := a.usage(ctx, in.UsagePeriodInput, "")
	if err != nil {
		return nil, err
	}
	return &api.PlatformUsageList{UsageList: *l}, nil
}

func (a *API) usage(ctx context.Context, in UsagePeriodInput, projectID string) (*api.UsageList, error) {
	f, err := in.filter(callerOf(ctx), projectID, a.c.DB.Now()) // of the clock that wrote the times
	if err != nil {
		return nil, err
	}
	page, next, err := a.c.DB.Usage(ctx, f)
	if err != nil {
		return nil, err
	}
	var totals []broker.UsageTotal
	if in.Cursor == "" { // the totals are those of all pages, and cost a look at all rows of the period
		if totals, err = a.c.DB.UsageTotals(ctx, f); err != nil {
			return nil, err
		}
	}
	out := &api.UsageList{From: f.From, To: f.To, Next: next, Totals: resources(totals, usageTotalResource)}
	out.Items = resources(page, func(u broker.Usage) api.Usage { return usageResource(u, f) })
	return out, nil
}

func usageTotalResource(t broker.UsageTotal) api.UsageTotal {
	return api.UsageTotal{
		ProjectID: t.ProjectID, SKU: t.SKU, NodeHours: t.NodeHours(), GPUHours: t.GPUHours(), Allocations: t.Allocations, InUse: t.InUse,
	}
}

func usageResource(u broker.Usage, f store.UsageFilter) api.Usage {
	r := api.Usage{
		AllocationID: u.AllocationID, ProjectID: u.ProjectID, SKU: u.SKU, Site: u.Site, Nodes: u.Nodes, GPUs: u.GPUs, From: u.From,
		Seconds: u.Within(f.From, f.To).Seconds(),
	}
	if !u.To.IsZero() {
		r.To = &u.To
	}
	return r
}
