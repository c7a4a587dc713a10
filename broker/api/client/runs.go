package client

import (
	"context"
	"net/http"
	"strconv"

	"github.com/hostler/hostler/broker/api"
)

// RunFilter narrows a list of runs; empty fields narrow nothing.
type RunFilter struct{ Site, Status, Stage, Class, Batch string }

// AnyRunFilter narrows a list of runs of all kinds.
type AnyRunFilter struct {
	RunFilter
	Kind, Node string
}

// Runs lists the runs of all kinds that match a filter, and the batch if the filter names a batch.
// The runs come in the order of their ids. That is the order of their start, except that a run that
// another run began stands behind that run and before the next one.
func (c *Client) Runs(ctx context.Context, f AnyRunFilter) (*api.RunList, error) {
	q := query("kind", f.Kind, "node_id", f.Node, "site", f.Site, "status", f.Status, "stage", f.Stage, "class", f.Class,
		"batch_id", f.Batch, "limit", strconv.Itoa(pageSize))
	all := &api.RunList{Items: []api.Run{}}
	for {
		page := new(api.RunList)
		if err := c.do(ctx, call{method: http.MethodGet, path: at("runs"), query: q, patience: waitPatience}, page); err != nil {
			return nil, err
		}
		all.Items, all.Batch, all.Standing = append(all.Items, page.Items...), page.Batch, page.Standing
		if page.Next == "" {
			return all, nil
		}
		q.Set("cursor", page.Next)
	}
}

// Run returns a run of any kind in its present state. The call outlives a restart of the broker.
func (c *Client) Run(ctx context.Context, id string) (*api.RunDetail, error) {
	out := new(api.RunDetail)
	return out, c.do(ctx, call{method: http.MethodGet, path: at("runs", id), patience: waitPatience}, out)
}

// ActOnRun performs an operator's action on a run of any kind. Every action is idempotent, so the
// client repeats the request after a lost answer.
func (c *Client) ActOnRun(ctx context.Context, id, action string, order api.RunOrder) (*api.Run, error) {
	out := new(api.Run)
	return out, c.do(ctx, call{method: http.MethodPost, path: at("runs", id, action), body: order, repeat: true}, out)
}
