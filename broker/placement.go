package broker

// PlacementOrder says which of the free nodes of a site an allocation gets.
type PlacementOrder string

// The orders. Nodes that are equal in an order follow each other by their ids.
const (
	ByNodeID          PlacementOrder = "node_id"
	NewestCertificate PlacementOrder = "newest_certificate" // the newest clean certificate first, none last
	LeastUsed         PlacementOrder = "least_used"         // the fewest allocations so far first
)
