package main

import (
	"context"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/adminapi/resource"
	"github.com/hostler/hostler/broker/cmd/hostler/client"
)

// selectNodes finds the nodes that a SELECTOR means: all, a list of NODE
// references, or key=value terms that must all hold. A term's key is site,
// status, sku or hostname, a label, or a capability the node reported.
// Deleted nodes are never meant. To mean nothing is an error.
func selectNodes(ctx context.Context, api *client.Client, selector string) ([]resource.Node, error) {
	words := strings.Split(selector, ",")
	terms := 0
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
		if words[i] == "" {
			return nil, usage("cannot read the selector %q: it has an empty part (all, NODE,NODE or key=value,key=value)", selector)
		}
		if strings.Contains(words[i], "=") {
			terms++
		}
	}
	if terms != 0 && terms != len(words) {
		return nil, usage("cannot read the selector %q: it mixes nodes and key=value terms", selector)
	}
	var found []resource.Node
	if terms == 0 && selector != "all" {
		for _, ref := range words {
			n, err := api.Node(ctx, ref)
			if err != nil {
				return nil, err
			}
			found = append(found, *n)
		}
		return found, nil
	}
	nodes, err := api.Nodes(ctx, client.NodeFilter{})
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if n.Status != string(broker.Deleted) && (selector == "all" || matches(n, words)) {
			found = append(found, n)
		}
	}
	if len(found) == 0 {
		return nil, broker.Errorf(broker.NotFound, "node_not_found", "cannot find a node for the selector %q (see hostler node list)", selector)
	}
	return found, nil
}

func matches(n resource.Node, terms []string) bool {
	own := map[string]string{"site": n.Site, "status": n.Status, "sku": n.SKU, "hostname": n.Hostname}
	for _, term := range terms {
		key, want, _ := strings.Cut(term, "=")
		got, ok := own[key]
		if !ok {
			if got, ok = n.Labels[key]; !ok {
				got, ok = n.Capabilities[key]
			}
		}
		if !ok || got != want {
			return false
		}
	}
	return true
}
