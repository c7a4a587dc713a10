package client

import (
	"context"
	"net/http"

	"github.com/hostler/hostler/broker/api"
)

// Clusters lists the clusters that nodes join by operations.
func (c *Client) Clusters(ctx context.Context) (*api.ClusterList, error) {
	return fetch[api.ClusterList](ctx, c, "/clusters", nil)
}

// SetCluster stores a cluster, replacing the former one of the name.
func (c *Client) SetCluster(ctx context.Context, name string, p api.ClusterPut) (*api.Cluster, error) {
	return submit[api.Cluster](ctx, c, http.MethodPut, at("clusters", name), p)
}

// RemoveCluster deletes a cluster and its secrets. The nodes of the cluster stay what they are.
func (c *Client) RemoveCluster(ctx context.Context, name, reason string) (*api.Cluster, error) {
	return remove[api.Cluster](ctx, c, at("clusters", name), reason)
}
