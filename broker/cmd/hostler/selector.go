package main

import (
	"context"
	"slices"

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
		if matches(selector, n) {
			found = append(found, n)
		}
	}
	if len(found) == 0 {
		return nil, broker.Errorf(broker.NotFound, "node_not_found", "cannot find a node for the selector %q (see hostler node list)", text)
	}
	return found, nil
}

// narrow keeps the nodes of a list that match a selector of terms.
func narrow(list *api.NodeList, text string) error {
	selector, err := broker.ParseSelector(text)
	if err != nil {
		return err
	}
	if selector.Refs() != nil {
		return usage("--nodes of a list takes key=value,key=value (hostler node show NODE shows one node)")
	}
	list.Items = slices.DeleteFunc(list.Items, func(n api.Node) bool { return !matches(selector, n) })
	return nil
}

func matches(selector broker.Selector, n api.Node) bool {
	return selector.Matches(broker.Node{
		ID: n.ID, Hostname: n.Hostname, Site: n.Site, SKU: n.SKU, Status: broker.NodeStatus(n.Status), Labels: n.Labels,
		Place:        broker.NodePlace{Zone: n.Zone, Room: n.Room, Row: n.Row, Rack: n.Rack, Unit: n.Unit, Domain: n.Domain},
		Capabilities: n.Capabilities,
	})
}
