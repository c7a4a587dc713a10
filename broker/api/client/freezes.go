package client

import (
	"context"
	"net/http"
	"strings"

	"github.com/hostler/hostler/broker/api"
)

// Frozen names the sites that were frozen when the broker last answered a GET; * means all sites.
func (c *Client) Frozen() []string {
	said, _ := c.frozen.Load().(string)
	if said == "" {
		return nil
	}
	return strings.Split(said, ", ")
}

// FreezeStatus lists the sites that are frozen or cannot be reached.
func (c *Client) FreezeStatus(ctx context.Context, site string) (*api.FreezeStatus, error) {
	return fetch[api.FreezeStatus](ctx, c, "/freeze", query("site", site))
}

// Freeze stops a site, or all sites. A repeated freeze changes nothing, so the client repeats the
// request after a lost answer.
func (c *Client) Freeze(ctx context.Context, p api.FreezePut) (*api.FreezeResult, error) {
	out := new(api.FreezeResult)
	return out, c.do(ctx, call{method: http.MethodPost, path: "/freeze", body: p, repeat: true}, out)
}

// Unfreeze lifts freezes.
func (c *Client) Unfreeze(ctx context.Context, p api.UnfreezePut) (*api.FreezeResult, error) {
	return submit[api.FreezeResult](ctx, c, http.MethodPost, "/unfreeze", p)
}
