package adminapi

import (
	"context"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
)

// nodeResources returns the read models of nodes, with what other records say of them. The number
// of queries does not depend on the number of nodes.
func (a *API) nodeResources(ctx context.Context, nodes ...broker.Node) ([]api.Node, error) {
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = n.ID
	}
	columns, err := a.c.DB.ColumnsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	skus, err := a.c.DB.SKUs(ctx)
	if err != nil {
		return nil, err
	}
	gpus := map[string]int{}
	for _, s := range skus {
		gpus[s.ID] = s.GPUCount
	}
	out := make([]api.Node, len(nodes))
	for i, n := range nodes {
		out[i] = nodeResource(n, columns[n.ID], gpus[n.SKU])
	}
	return out, nil
}

// changedNode is the read model of a node that a request has changed. The change is made, so that a
// failed look at other records only leaves their fields empty.
func (a *API) changedNode(ctx context.Context, n broker.Node) api.Node {
	all, err := a.nodeResources(ctx, n)
	if err != nil {
		a.c.Log.Warn("cannot complete the answer about a changed node", zap.String("node", n.ID), zap.Error(err))
		return nodeResource(n, store.NodeColumns{}, 0)
	}
	return all[0]
}

func nodeResource(n broker.Node, c store.NodeColumns, gpus int) api.Node {
	return api.Node{
		ID: n.ID, Hostname: n.Hostname, Site: n.Site, SKU: n.SKU,
		Status: string(n.Status), StatusReason: n.StatusReason, TurnoverOwed: n.TurnoverOwed,
		Epoch: n.Epoch, Bootstrap: n.Bootstrap, MAASSystemID: n.MAASSystemID, Labels: n.Labels,
		TaskTypes: n.TaskTypes, Capabilities: n.Capabilities, AgentVersion: n.AgentVersion,
		TrustVersion: n.TrustVersion, BaselineDigest: n.BaselineDigest,
		EnrolledAt: n.EnrolledAt, LastAgentContactAt: n.LastAgentContactAt, CertNotAfter: n.CertNotAfter,
		CreatedAt: n.CreatedAt, UpdatedAt: n.UpdatedAt,
		Serial: c.Serial, Host: c.Host, IPMIIP: c.BMC, PXEMAC: c.PXEMAC, GPUsTotal: gpus, SiteID: c.SiteID, RegionCode: c.Region,
		Zone: partOf(n, "zone"), Room: partOf(n, "room"), Row: partOf(n, "row"), Rack: partOf(n, "rack"),
		Unit: n.Place.Unit, Domain: partOf(n, "domain"),
		AllocationID: c.AllocationID, Tenant: c.Tenant, Image: c.Image,
	}
}

// partOf is a part of a node's place as selectors see it.
func partOf(n broker.Node, level string) string {
	word, _ := broker.Trait(n, level)
	return word
}
