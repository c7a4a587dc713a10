package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker/api"
)

func (a *API) showFacts(ctx context.Context, in *NodeInput) (*api.NodeFacts, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	f, reportedAt, err := a.c.DB.Facts(ctx, n.ID)
	if err != nil {
		return nil, err
	}
	return &api.NodeFacts{NodeID: n.ID, Hostname: n.Hostname, ReportedAt: reportedAt, Facts: f}, nil
}
