package main

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// selectNodes finds the nodes that match a SELECTOR. No match is an error.
func selectNodes(ctx context.Context, remote *client.Client, text string) ([]api.Node, error) {
	selector, err := broker.ParseSelector(text)
	if err != nil {
		return nil, err
	}
	var found []api.Node
	if refs := selector.Refs(); refs != nil {
		for _, ref := range refs {
			n, err := remote.Node(ctx, ref)
			if err != nil {
				return nil, err
			}
			found = append(found, *n)
		}
		return found, nil
	}
	nodes, err := remote.Nodes(ctx, client.NodeFilter{})
	if err != nil {
		return nil, err
	}
	for _, n := range nodes.Items {
		if selector.Matches(broker.Node{
			ID: n.ID, Hostname: n.Hostname, Site: n.Site, SKU: n.SKU, Status: broker.NodeStatus(n.Status), Labels: n.Labels,
			Capabilities: n.Capabilities,
		}) {
			found = append(found, n)
		}
	}
	if len(found) == 0 {
		return nil, broker.Errorf(broker.NotFound, "node_not_found", "cannot find a node for the selector %q (see hostler node list)", text)
	}
	return found, nil
}
