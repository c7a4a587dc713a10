package client

import (
	"context"
	"net/http"

	"github.com/hostler/hostler/broker/adminapi/resource"
)

// PushResolverSet keeps a set of resolver profiles.
func (c *Client) PushResolverSet(ctx context.Context, p resource.ResolverPush) (*resource.ResolverSet, error) {
	return submit[resource.ResolverSet](ctx, c, http.MethodPost, "/resolver/sets", p)
}

// ResolverSets lists the sets that the broker keeps.
func (c *Client) ResolverSets(ctx context.Context) (*resource.ResolverSetList, error) {
	return fetch[resource.ResolverSetList](ctx, c, "/resolver/sets", nil)
}

// WantResolverSet says which nodes shall have which set.
func (c *Client) WantResolverSet(ctx context.Context, p resource.ResolverWantPut) (*resource.ResolverWant, error) {
	return submit[resource.ResolverWant](ctx, c, http.MethodPost, "/resolver/wants", p)
}

// ResolverWants lists which nodes shall have which set.
func (c *Client) ResolverWants(ctx context.Context) (*resource.ResolverWantList, error) {
	return fetch[resource.ResolverWantList](ctx, c, "/resolver/wants", nil)
}

// NodeResolver is what a node shall have, has and had.
func (c *Client) NodeResolver(ctx context.Context, ref string) (*resource.NodeResolver, error) {
	return fetch[resource.NodeResolver](ctx, c, at("nodes", ref, "resolver"), nil)
}

// RollBackResolver gives a node the set that it had before, or another one.
func (c *Client) RollBackResolver(ctx context.Context, ref string, r resource.ResolverRollback) (*resource.NodeResolver, error) {
	return submit[resource.NodeResolver](ctx, c, http.MethodPost, at("nodes", ref, "resolver", "rollback"), r)
}

// ExplainResolver says how a step resolves on a node, and why.
func (c *Client) ExplainResolver(ctx context.Context, ref, step string) (*resource.ResolverExplanation, error) {
	return fetch[resource.ResolverExplanation](ctx, c, at("nodes", ref, "resolver", "explain"), query("step", step))
}
