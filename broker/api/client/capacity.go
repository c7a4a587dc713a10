package client

import (
	"context"

	"github.com/hostler/hostler/broker/api"
)

// Capacity counts nodes and GPUs by site, SKU and availability; an empty site means all.
func (c *Client) Capacity(ctx context.Context, site, by string) (*api.Capacity, error) {
	return fetch[api.Capacity](ctx, c, "/capacity", query("site", site, "by", by))
}
