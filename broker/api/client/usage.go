package client

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker/api"
)

// UsageFilter selects usage; an empty field adds no condition, and an empty time is the broker's
// default.
type UsageFilter struct {
	Project, Site string
	From, To      time.Time
}

// Usage returns the usage of a project, or of all projects, with all pages of its rows.
func (c *Client) Usage(ctx context.Context, f UsageFilter) (*api.UsageList, error) {
	path := at("usage")
	if f.Project != "" {
		path = at("projects", f.Project, "usage")
	}
	q := query("site", f.Site, "from", timestamp(f.From), "to", timestamp(f.To))
	all := &api.UsageList{Items: []api.Usage{}}
	err := eachPage(ctx, c, path, q, func(l *api.UsageList) string {
		// All pages are of the period of the first.
		q.Set("from", timestamp(l.From))
		q.Set("to", timestamp(l.To))
		if all.Totals == nil { // the first page alone has them
			all.Totals = l.Totals
		}
		all.From, all.To, all.Items = l.From, l.To, append(all.Items, l.Items...)
		return l.Next
	})
	return all, err
}
