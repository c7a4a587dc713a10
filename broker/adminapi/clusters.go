package adminapi

import (
	"context"
	"crypto/rand"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cluster"
)

// ClusterInput names a cluster.
type ClusterInput struct {
	Name string `path:"name" maxLength:"63" doc:"name of the cluster"`
}

func (a *API) listClusters(ctx context.Context, in *PageInput) (*api.ClusterList, error) {
	all, err := a.c.DB.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	out := &api.ClusterList{Items: make([]api.Cluster, len(all))}
	for i, c := range all {
		out.Items[i] = api.Cluster(c)
	}
	return out, cut(*in, &out.Items, &out.Next, func(c api.Cluster) string { return c.Name })
}

type setClusterInput struct {
	ClusterInput
	Body api.ClusterPut
}

// setCluster writes the record before the secrets, and both carry the same generation. A crash between
// the two leaves a pair that is refused when used; the same request repeated repairs it.
func (a *API) setCluster(ctx context.Context, in *setClusterInput) (*api.Cluster, error) {
	defer clear(in.Body.JoinSecret)
	c := broker.Cluster{
		Name: in.Name, Backend: in.Body.Backend, URL: in.Body.URL, CACert: in.Body.CACert, Controller: in.Body.Controller,
		JoinAuth: in.Body.JoinAuth, Generation: rand.Text(),
	}
	err := c.Check(in.Body.Token, in.Body.JoinSecret)
	if err != nil {
		return nil, err
	}
	if in.Body.Project != "" {
		p, err := a.project(ctx, in.Body.Project)
		if err != nil {
			return nil, err
		}
		c.ProjectID = p.ID
	}
	if c.Reason, err = a.reasonFor(ctx, in.Body.Reason, "cluster.set", "cluster/"+c.Name, "store cluster "+c.Name); err != nil {
		return nil, err
	}
	a.credentials.Lock()
	defer a.credentials.Unlock()
	if c, err = a.c.DB.PutCluster(ctx, callerOf(ctx).actor(), c); err != nil {
		return nil, err
	}
	if err := cluster.Put(ctx, a.c.Secrets, c, cluster.Access{Token: in.Body.Token, JoinSecret: in.Body.JoinSecret}); err != nil {
		return nil, err
	}
	out := api.Cluster(c)
	return &out, nil
}

type removeClusterInput struct {
	ClusterInput
	Reason
}

// removeCluster deletes the secrets first: a record without secrets is refused when used, and can be
// removed again.
func (a *API) removeCluster(ctx context.Context, in *removeClusterInput) (*api.Cluster, error) {
	c, err := a.c.DB.Cluster(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Reason.Reason, "cluster.remove", "cluster/"+c.Name, "remove cluster "+c.Name)
	if err != nil {
		return nil, err
	}
	a.credentials.Lock()
	defer a.credentials.Unlock()
	if err := a.c.Secrets.Delete(ctx, c.VaultPath); err != nil {
		return nil, err
	}
	if c, err = a.c.DB.RemoveCluster(ctx, callerOf(ctx).actor(), c.Name, reason); err != nil {
		return nil, err
	}
	out := api.Cluster(c)
	return &out, nil
}
