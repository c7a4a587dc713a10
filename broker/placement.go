package broker

import (
	"maps"
	"slices"
)

// PlacementOrder says which of the free nodes of a site an allocation gets.
type PlacementOrder string

// The orders. Nodes that are equal in an order follow each other by their ids.
const (
	ByNodeID          PlacementOrder = "node_id"
	NewestCertificate PlacementOrder = "newest_certificate" // the newest clean certificate first, none last
	LeastUsed         PlacementOrder = "least_used"         // the fewest allocations so far first
)

// ProjectPlacement says which nodes the allocations of a project get. What the project holds already stays.
type ProjectPlacement struct {
	Order PlacementOrder // empty: the order of the site
	// NodeLabels are labels that each node must have. They are set by operators: what a node reports of itself
	// does not count.
	NodeLabels map[string]string
}

// Lacks returns the pinned labels that a node with some labels does not have, as key=value.
func (p ProjectPlacement) Lacks(labels map[string]string) (lacking []string) {
	for _, key := range slices.Sorted(maps.Keys(p.NodeLabels)) {
		if has, ok := labels[key]; !ok || has != p.NodeLabels[key] {
			lacking = append(lacking, key+"="+p.NodeLabels[key])
		}
	}
	return lacking
}
