package client

import (
	"context"
	"net/http"

	"github.com/hostler/hostler/broker/api"
)

// PushResolverSet stores a set of resolver profiles at the broker.
func (c *Client) PushResolverSet(ctx context.Context, p api.ResolverPush) (*api.ResolverSet, error) {
	return submit[api.ResolverSet](ctx, c, http.MethodPost, "/resolver/sets", p)
}

// ResolverSets lists the sets that the broker keeps.
func (c *Client) ResolverSets(ctx context.Context) (*api.ResolverSetList, error) {
	return fetch[api.ResolverSetList](ctx, c, "/resolver/sets", nil)
}

// WantResolverSet assigns a profile set to the nodes of a selector.
func (c *Client) WantResolverSet(ctx context.Context, p api.ResolverWantPut) (*api.ResolverWant, error) {
	return submit[api.ResolverWant](ctx, c, http.MethodPost, "/resolver/wants", p)
}

// ResolverWants lists the assignments of profile sets.
func (c *Client) ResolverWants(ctx context.Context) (*api.ResolverWantList, error) {
	return fetch[api.ResolverWantList](ctx, c, "/resolver/wants", nil)
}

// NodeResolver returns a node's assigned profile set, its set in force, and the set before.
func (c *Client) NodeResolver(ctx context.Context, ref string) (*api.NodeResolver, error) {
	return fetch[api.NodeResolver](ctx, c, at("nodes", ref, "resolver"), nil)
}

// RollBackResolver returns a node to its previous profile set, or to another named set.
func (c *Client) RollBackResolver(ctx context.Context, ref string, r api.ResolverRollback) (*api.NodeResolver, error) {
	return submit[api.NodeResolver](ctx, c, http.MethodPost, at("nodes", ref, "resolver", "rollback"), r)
}

// ExplainResolver says how a step resolves on a node, and why.
func (c *Client) ExplainResolver(ctx context.Context, ref, step string) (*api.ResolverExplanation, error) {
	return fetch[api.ResolverExplanation](ctx, c, at("nodes", ref, "resolver", "explain"), query("step", step))
}
