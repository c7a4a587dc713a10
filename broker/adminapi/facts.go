package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker"
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

// chassis returns the chassis serial that a node's agent reported, or "" if there is none.
func (a *API) chassis(ctx context.Context, nodeID string) (string, error) {
	f, _, err := a.c.DB.Facts(ctx, nodeID)
	if err != nil && broker.AsError(err).Code != "facts_unknown" {
		return "", err
	}
	return f.ChassisSerial, nil
}
