package client

import (
	"context"
	"net/http"

	"github.com/hostler/hostler/broker/api"
)

// MaintenanceFilter narrows a list of maintenances; empty fields narrow nothing.
type MaintenanceFilter struct {
	Node   string
	Site   string
	Status string // one or several, separated by commas
	Ended  bool   // those that have ended, too
}

// Maintenances lists maintenances that are planned or open, and with Ended those that are over.
func (c *Client) Maintenances(ctx context.Context, f MaintenanceFilter) (*api.MaintenanceList, error) {
	q := endedQuery(f.Ended)
	for name, values := range query("node", f.Node, "site", f.Site, "status", f.Status) {
		q[name] = values
	}
	all := &api.MaintenanceList{Items: []api.Maintenance{}}
	return all, eachPage(ctx, c, at("maintenances"), q, func(l *api.MaintenanceList) string {
		all.Standing, all.Items = l.Standing, append(all.Items, l.Items...)
		return l.Next
	})
}

// Maintenance returns a maintenance with its notes.
func (c *Client) Maintenance(ctx context.Context, id string) (*api.MaintenanceDetail, error) {
	return fetch[api.MaintenanceDetail](ctx, c, at("maintenances", id), nil)
}

// CreateMaintenance opens a maintenance of a node, or plans one.
func (c *Client) CreateMaintenance(ctx context.Context, m api.MaintenanceCreate) (*api.MaintenanceDetail, error) {
	return begin[api.MaintenanceDetail](ctx, c, at("maintenances"), m)
}

// NoteMaintenance adds a note to a maintenance.
func (c *Client) NoteMaintenance(ctx context.Context, id, text string) (*api.MaintenanceDetail, error) {
	return submit[api.MaintenanceDetail](ctx, c, http.MethodPost, at("maintenances", id, "notes"), api.MaintenanceNoteAdd{Text: text})
}

// CloseMaintenance closes an open maintenance, or cancels a planned one. Closing one again changes nothing.
func (c *Client) CloseMaintenance(ctx context.Context, id string, m api.MaintenanceClose) (*api.MaintenanceDetail, error) {
	return submit[api.MaintenanceDetail](ctx, c, http.MethodPost, at("maintenances", id, "close"), m)
}
