package secrets

import "context"

// nodeToken is the path of the stored MAAS token of a node's machine.
func nodeToken(nodeID string) string { return "nodes/" + nodeID + "/maas-machine-token" }

// PutNodeToken stores the token that node.hw_sync_reseed delivers to its node.
func PutNodeToken(ctx context.Context, k Keeper, nodeID string, token []byte) error {
	return k.Put(ctx, nodeToken(nodeID), token)
}

// ForgetNode removes the secrets of a node.
func ForgetNode(ctx context.Context, k Keeper, nodeID string) error {
	return k.Delete(ctx, nodeToken(nodeID))
}
