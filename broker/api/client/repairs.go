package client

import (
	"context"
	"net/http"

	"github.com/hostler/hostler/broker/api"
)

// RepairFilter narrows a list of repairs; empty fields narrow nothing.
type RepairFilter struct {
	Node   string // also a deleted one, by its id
	Serial string // of the old or the new part
	Site   string
}

// Repairs lists repairs, also those of nodes that are deleted.
func (c *Client) Repairs(ctx context.Context, f RepairFilter) (*api.RepairList, error) {
	all := &api.RepairList{Items: []api.Repair{}}
	q := query("node", f.Node, "serial", f.Serial, "site", f.Site)
	return all, eachPage(ctx, c, at("repairs"), q, func(l *api.RepairList) string {
		all.Standing, all.Items = l.Standing, append(all.Items, l.Items...)
		return l.Next
	})
}

// AddRepairs records repairs: all, or none. Those that are on record already are left as they are.
func (c *Client) AddRepairs(ctx context.Context, r api.RepairsAdd) (*api.RepairsResult, error) {
	return submit[api.RepairsResult](ctx, c, http.MethodPost, at("repairs"), r)
}

// ReplaceHost records that a machine took the place of another one.
func (c *Client) ReplaceHost(ctx context.Context, r api.HostReplace) (*api.HostReplacement, error) {
	return submit[api.HostReplacement](ctx, c, http.MethodPost, at("host-replacements"), r)
}
