package secrets

import "context"

// nodeToken is where a node's own MAAS token is, until its site knows it.
func nodeToken(nodeID string) string { return "nodes/" + nodeID + "/maas-machine-token" }

// PutNodeToken keeps the token that node.hw_sync_reseed gives its node.
func PutNodeToken(ctx context.Context, k Keeper, nodeID string, token []byte) error {
	return k.Put(ctx, nodeToken(nodeID), token)
}

// ForgetNode removes what is kept for a node.
func ForgetNode(ctx context.Context, k Keeper, nodeID string) error {
	return k.Delete(ctx, nodeToken(nodeID))
}
